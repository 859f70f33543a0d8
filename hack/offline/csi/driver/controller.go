package main

import (
	"context"
	"errors"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// smallest is the smallest XFS; a claim for less gets as much.
const smallest = 300 << 20

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	var all []*csi.PluginCapability
	for _, service := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		all = append(all, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}}})
	}
	all = append(all, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}})
	return &csi.GetPluginCapabilitiesResponse{Capabilities: all}, nil
}

// Growth is the node's: the resizer, of which one works for all nodes, never has to ask the right driver.
func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	var all []*csi.ControllerServiceCapability
	for _, call := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
	} {
		all = append(all, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: call}}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{d.name + "/node": d.node}}
}

func (d *driver) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	name, source := request.GetName(), request.GetVolumeContentSource()
	if !goodName.MatchString(name) {
		return nil, status.Errorf(codes.InvalidArgument, "%q is no name for a volume", name)
	}
	if err := supported(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	if source != nil && source.GetSnapshot() == nil {
		return nil, status.Error(codes.InvalidArgument, "volumes are made empty or of a snapshot, and not of another volume")
	}
	bytes := max(request.GetCapacityRange().GetRequiredBytes(), smallest)
	if limit := request.GetCapacityRange().GetLimitBytes(); limit > 0 && limit < bytes {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are wanted, and at most %d", bytes, limit)
	}
	there, err := d.images.volumeBytes(name)
	switch {
	case err == nil && there < bytes:
		return nil, status.Errorf(codes.AlreadyExists, "%s is there with %d bytes", name, there)
	case err == nil:
		bytes = there
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		if err := d.fill(name, source.GetSnapshot().GetSnapshotId(), bytes); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: name, CapacityBytes: bytes, ContentSource: source, AccessibleTopology: []*csi.Topology{d.topology()},
	}}, nil
}

// fill makes a volume, empty if snapshotID is "".
func (d *driver) fill(name, snapshotID string, bytes int64) error {
	if snapshotID == "" {
		return d.images.createVolume(name, bytes)
	}
	found, err := d.images.snapshot(snapshotID)
	if errors.Is(err, fs.ErrNotExist) {
		// The code for "not on this node": the provisioner lets the scheduler choose again.
		return status.Errorf(codes.ResourceExhausted, "snapshot %s is not on node %s", snapshotID, d.node)
	}
	if err != nil {
		return err
	}
	if found.bytes > bytes {
		return status.Errorf(codes.OutOfRange, "snapshot %s has %d bytes, the volume would have %d", snapshotID, found.bytes, bytes)
	}
	return d.images.restoreVolume(name, snapshotID, bytes)
}

func supported(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "no capability of the volume is asked for")
	}
	for _, capability := range capabilities {
		if capability.GetBlock() != nil {
			return status.Error(codes.InvalidArgument, "this driver has filesystems, and no block volumes")
		}
		switch mode := capability.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		default:
			return status.Errorf(codes.InvalidArgument, "access mode %s is not supported: a volume stays on its node", mode)
		}
	}
	return nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := d.images.volumeBytes(request.GetVolumeId()); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err := supported(request.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.GetVolumeCapabilities()},
	}, nil
}

func (d *driver) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	name := request.GetVolumeId()
	at, err := d.mountedAt(name)
	if err != nil {
		return nil, err
	}
	if at != "" {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is still mounted at %s", name, at)
	}
	return &csi.DeleteVolumeResponse{}, d.images.deleteVolume(name)
}

func (d *driver) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	name, volume := request.GetName(), request.GetSourceVolumeId()
	if !goodName.MatchString(name) {
		return nil, status.Errorf(codes.InvalidArgument, "%q is no name for a snapshot", name)
	}
	if _, err := d.images.volumeBytes(volume); err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s is not on node %s: %v", volume, d.node, err)
	}
	found, err := d.images.snapshot(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.frozen(volume, func() error { return d.images.takeSnapshot(name, volume) }); err != nil {
			return nil, err
		}
		found, err = d.images.snapshot(name)
	}
	if err != nil {
		return nil, err
	}
	if found.volume != volume {
		return nil, status.Errorf(codes.AlreadyExists, "%s is a snapshot of %s", name, found.volume)
	}
	return &csi.CreateSnapshotResponse{Snapshot: found.proto()}, nil
}

// frozen calls copy while nobody can write to the volume. A volume that is mounted nowhere need not be frozen.
func (d *driver) frozen(volume string, copy func() error) (err error) {
	at, err := d.mountedAt(volume)
	if err != nil {
		return err
	}
	if at == "" {
		return copy()
	}
	if err := run("fsfreeze", "--freeze", at); err != nil {
		return err
	}
	since := time.Now()
	defer func() {
		err = errors.Join(err, run("fsfreeze", "--unfreeze", at))
		log.Printf("%s was frozen for %d ms", volume, time.Since(since).Milliseconds())
	}()
	return copy()
}

// thawAll is for what a driver had frozen that was killed.
func (d *driver) thawAll() error {
	volumes, err := os.ReadDir(filepath.Join(d.images.folder, "mounts"))
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		at, err := d.mountedAt(volume.Name())
		if err != nil {
			return err
		}
		if at == "" {
			continue
		}
		if err := run("fsfreeze", "--unfreeze", at); err == nil {
			log.Printf("%s was still frozen", volume.Name())
		}
	}
	return nil
}

func (d *driver) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	return &csi.DeleteSnapshotResponse{}, d.images.deleteSnapshot(request.GetSnapshotId())
}

// ListSnapshots is asked for one of them by the snapshotter, about a snapshot that it has not made itself.
func (d *driver) ListSnapshots(_ context.Context, request *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if request.GetStartingToken() != "" {
		return nil, status.Error(codes.Aborted, "the list has one page")
	}
	all, err := d.images.snapshots()
	if err != nil {
		return nil, err
	}
	answer := &csi.ListSnapshotsResponse{}
	for _, found := range all {
		if id := request.GetSnapshotId(); id != "" && id != found.name {
			continue
		}
		if volume := request.GetSourceVolumeId(); volume != "" && volume != found.volume {
			continue
		}
		answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: found.proto()})
	}
	return answer, nil
}

func (s snapshot) proto() *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: s.name, SourceVolumeId: s.volume, SizeBytes: s.bytes, CreationTime: timestamppb.New(s.taken), ReadyToUse: true,
	}
}
