package main

import (
	"context"
	"fmt"
	"log"
	"time"

	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshotinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	snapshotlisters "github.com/kubernetes-csi/external-snapshotter/client/v8/listers/volumesnapshot/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// managedBy makes the snapshotter of one node work on a content.
	managedBy = "snapshot.storage.kubernetes.io/managed-by"
	// selectedNode makes the scheduler put the pod on that node, and the provisioner there make the volume.
	selectedNode = "volume.kubernetes.io/selected-node"
	// again is after how long is looked again, whatever was seen.
	again = 2 * time.Second
)

// locator tells Kubernetes what it cannot know of snapshots that lie on one node. Where storage is reached from everywhere, people and
// operators need not name a node to restore from a snapshot; so nor do they here.
type locator struct {
	driver, node string
	images       *images
	kube         kubernetes.Interface
	snap         snapshotclient.Interface
	claims       corelisters.PersistentVolumeClaimLister
	snapshots    snapshotlisters.VolumeSnapshotLister
	contents     snapshotlisters.VolumeSnapshotContentLister
}

// locate labels VolumeSnapshotContents that people made for a snapshot of this node, which the snapshot-controller does only with those
// that it makes itself, and sends claims with such a snapshot as their source to this node. It ends only with an error.
func locate(ctx context.Context, driver, node string, images *images) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	l := locator{driver: driver, node: node, images: images}
	if l.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if l.snap, err = snapshotclient.NewForConfig(config); err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	wake := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }}
	kube, snap := informers.NewSharedInformerFactory(l.kube, 0), snapshotinformers.NewSharedInformerFactory(l.snap, 0)
	claims, contents, made := kube.Core().V1().PersistentVolumeClaims(), snap.Snapshot().V1().VolumeSnapshotContents(), snap.Snapshot().V1().VolumeSnapshots()
	l.claims, l.contents, l.snapshots = claims.Lister(), contents.Lister(), made.Lister()
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), contents.Informer(), made.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	kube.Start(ctx.Done())
	snap.Start(ctx.Done())
	kube.WaitForCacheSync(ctx.Done())
	snap.WaitForCacheSync(ctx.Done())
	for {
		if err := l.look(ctx); err != nil {
			log.Printf("failed to say where snapshots are: %v", err)
		}
		select {
		case <-changed:
		case <-time.After(again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *locator) look(ctx context.Context) error {
	contents, err := l.contents.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, content := range contents {
		if content.Labels[managedBy] == l.node || !l.isHere(content) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, managedBy, l.node)
		if _, err := l.snap.SnapshotV1().VolumeSnapshotContents().Patch(ctx, content.Name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
			return err
		}
		log.Printf("VolumeSnapshotContent %s is for node %s", content.Name, l.node)
	}
	claims, err := l.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Spec.VolumeName != "" || claim.Annotations[selectedNode] == l.node || !l.isSourceHere(claim) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, selectedNode, l.node)
		if _, err := l.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
			return err
		}
		log.Printf("PersistentVolumeClaim %s/%s is for node %s", claim.Namespace, claim.Name, l.node)
	}
	return nil
}

func (l *locator) isHere(content *snapshots.VolumeSnapshotContent) bool {
	handle := content.Spec.Source.SnapshotHandle
	if handle == nil && content.Status != nil {
		handle = content.Status.SnapshotHandle
	}
	if content.Spec.Driver != l.driver || handle == nil {
		return false
	}
	_, err := l.images.snapshot(*handle)
	return err == nil
}

func (l *locator) isSourceHere(claim *core.PersistentVolumeClaim) bool {
	source := claim.Spec.DataSource
	if source == nil || source.Kind != "VolumeSnapshot" || source.APIGroup == nil || *source.APIGroup != snapshots.GroupName {
		return false
	}
	snapshot, err := l.snapshots.VolumeSnapshots(claim.Namespace).Get(source.Name)
	if err != nil || snapshot.Status == nil || snapshot.Status.BoundVolumeSnapshotContentName == nil {
		return false
	}
	content, err := l.contents.Get(*snapshot.Status.BoundVolumeSnapshotContentName)
	return err == nil && l.isHere(content)
}
