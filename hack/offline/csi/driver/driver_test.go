package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"
)

const mib = 1 << 20

func noFilesystem(string) error { return nil }

// emptyNode mounts nothing, so that no test needs rights.
func emptyNode(t *testing.T) *driver {
	t.Helper()
	images, err := openImages(t.TempDir(), noFilesystem)
	if err != nil {
		t.Fatal(err)
	}
	return &driver{name: "test", node: "here", images: images, mounter: mount.NewFakeMounter(nil)}
}

func (d *driver) create(name, snapshot string, bytes int64) (*csi.CreateVolumeResponse, error) {
	request := &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	}
	if snapshot != "" {
		request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
		}}
	}
	return d.CreateVolume(context.Background(), request)
}

func (d *driver) take(name, volume string) (*csi.CreateSnapshotResponse, error) {
	return d.CreateSnapshot(context.Background(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
}

func ok[T any](t *testing.T) func(answer T, err error) T {
	t.Helper()
	return func(answer T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("%v, wanted %v", err, code)
	}
}

func writeTo(t *testing.T, path, what string, at int64) {
	t.Helper()
	file := ok[*os.File](t)(os.OpenFile(path, os.O_RDWR, 0))
	defer file.Close()
	ok[int](t)(file.WriteAt([]byte(what), at))
}

func readFrom(t *testing.T, path string, length int, at int64) string {
	t.Helper()
	file := ok[*os.File](t)(os.Open(path))
	defer file.Close()
	read := make([]byte, length)
	ok[int](t)(file.ReadAt(read, at))
	return string(read)
}

func TestAVolumeThatIsAskedForTwiceIsMadeOnce(t *testing.T) {
	node := emptyNode(t)
	ok[*csi.CreateVolumeResponse](t)(node.create("pvc-1", "", 320*mib))
	writeTo(t, node.images.volume("pvc-1"), "kept", 20*mib)
	again := ok[*csi.CreateVolumeResponse](t)(node.create("pvc-1", "", 320*mib))
	if again.Volume.CapacityBytes != 320*mib || readFrom(t, node.images.volume("pvc-1"), 4, 20*mib) != "kept" {
		t.Fatal("the volume was made anew")
	}
	_, err := node.create("pvc-1", "", 640*mib)
	wantCode(t, err, codes.AlreadyExists)
}

func TestASnapshotRestoresWhatTheVolumeHeldThen(t *testing.T) {
	node := emptyNode(t)
	ok[*csi.CreateVolumeResponse](t)(node.create("pvc-1", "", 320*mib))
	writeTo(t, node.images.volume("pvc-1"), "then", 20*mib)
	first := ok[*csi.CreateSnapshotResponse](t)(node.take("snapshot-1", "pvc-1"))
	writeTo(t, node.images.volume("pvc-1"), "now!", 20*mib)
	second := ok[*csi.CreateSnapshotResponse](t)(node.take("snapshot-1", "pvc-1"))
	if !first.Snapshot.CreationTime.AsTime().Equal(second.Snapshot.CreationTime.AsTime()) || !first.Snapshot.ReadyToUse {
		t.Fatalf("%v became %v", first.Snapshot, second.Snapshot)
	}
	ok[*csi.DeleteVolumeResponse](t)(node.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "pvc-1"}))
	ok[*csi.CreateVolumeResponse](t)(node.create("pvc-2", "snapshot-1", 480*mib))
	if read := readFrom(t, node.images.volume("pvc-2"), 4, 20*mib); read != "then" {
		t.Fatalf("restored: %q", read)
	}
	if bytes := ok[int64](t)(node.images.volumeBytes("pvc-2")); bytes != 480*mib {
		t.Fatalf("restored with %d bytes", bytes)
	}
}

func TestASnapshotIsRestoredOnlyWhereItIsAndOnlyWhereItFits(t *testing.T) {
	node := emptyNode(t)
	ok[*csi.CreateVolumeResponse](t)(node.create("pvc-1", "", 320*mib))
	ok[*csi.CreateSnapshotResponse](t)(node.take("snapshot-1", "pvc-1"))
	_, err := node.create("pvc-2", "snapshot-2", 320*mib)
	wantCode(t, err, codes.ResourceExhausted)
	_, err = node.create("pvc-2", "snapshot-1", 310*mib)
	wantCode(t, err, codes.OutOfRange)
	_, err = node.take("snapshot-1", "pvc-9")
	wantCode(t, err, codes.NotFound)
}

func TestASnapshotIsFoundByItsHandle(t *testing.T) {
	node := emptyNode(t)
	ok[*csi.CreateVolumeResponse](t)(node.create("pvc-1", "", 320*mib))
	ok[*csi.CreateSnapshotResponse](t)(node.take("snapshot-1", "pvc-1"))
	ok[*csi.CreateSnapshotResponse](t)(node.take("snapshot-2", "pvc-1"))
	for handle, wanted := range map[string]int{"": 2, "snapshot-2": 1, "snapshot-3": 0} {
		list := ok[*csi.ListSnapshotsResponse](t)(node.ListSnapshots(context.Background(), &csi.ListSnapshotsRequest{SnapshotId: handle}))
		if len(list.Entries) != wanted {
			t.Fatalf("%q: %v", handle, list.Entries)
		}
	}
	ok[*csi.DeleteSnapshotResponse](t)(node.DeleteSnapshot(context.Background(), &csi.DeleteSnapshotRequest{SnapshotId: "snapshot-1"}))
	ok[*csi.DeleteSnapshotResponse](t)(node.DeleteSnapshot(context.Background(), &csi.DeleteSnapshotRequest{SnapshotId: "snapshot-1"}))
	if left := ok[[]snapshot](t)(node.images.snapshots()); len(left) != 1 || left[0].name != "snapshot-2" {
		t.Fatalf("left: %v", left)
	}
}

func TestAVolumeThatIsMountedIsNotDeleted(t *testing.T) {
	node := emptyNode(t)
	ok[*csi.CreateVolumeResponse](t)(node.create("pvc-1", "", 320*mib))
	at := t.TempDir()
	if err := os.Symlink(at, node.images.mount("pvc-1")); err != nil {
		t.Fatal(err)
	}
	node.mounter = mount.NewFakeMounter([]mount.MountPoint{{Device: "/dev/loop0", Path: at}})
	_, err := node.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "pvc-1"})
	wantCode(t, err, codes.FailedPrecondition)
	node.mounter = mount.NewFakeMounter(nil)
	ok[*csi.DeleteVolumeResponse](t)(node.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "pvc-1"}))
}

func TestNamesLeadNowhereElse(t *testing.T) {
	node := emptyNode(t)
	_, err := node.create("../pvc-1", "", 320*mib)
	wantCode(t, err, codes.InvalidArgument)
	outside := filepath.Join(node.images.folder, "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ok[*csi.DeleteVolumeResponse](t)(node.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "../outside"}))
	ok[*csi.DeleteSnapshotResponse](t)(node.DeleteSnapshot(context.Background(), &csi.DeleteSnapshotRequest{SnapshotId: ".."}))
	ok[os.FileInfo](t)(os.Stat(outside))
}

func TestWhatADriverLeftUnfinishedIsGone(t *testing.T) {
	node := emptyNode(t)
	for _, kind := range []string{"volumes", "snapshots"} {
		if err := os.Mkdir(node.images.path(kind, "half")+".partial", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	again := ok[*images](t)(openImages(node.images.folder, noFilesystem))
	if left := ok[[]string](t)(filepath.Glob(filepath.Join(again.folder, "*", "*"))); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}
