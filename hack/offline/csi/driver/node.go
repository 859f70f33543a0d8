package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"
)

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: d.topology()}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	var all []*csi.NodeServiceCapability
	for _, call := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		all = append(all, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: call}}})
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: all}, nil
}

// NodeStageVolume mounts the volume once for all its pods. The loop device goes away with the mount, also when a node's
// container is deleted with everything in it.
func (d *driver) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	name, at := request.GetVolumeId(), request.GetStagingTargetPath()
	if _, err := d.images.volumeBytes(name); err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s is not on node %s: %v", name, d.node, err)
	}
	mounted, err := d.isMounted(at)
	if err != nil {
		return nil, err
	}
	if !mounted {
		// A volume has the UUID of the one whose snapshot it was made of.
		if err := errors.Join(os.MkdirAll(at, 0o750), makeLoopDevices()); err != nil {
			return nil, err
		}
		if err := d.mounter.Mount(d.images.volume(name), at, "xfs", []string{"loop", "discard", "nouuid"}); err != nil {
			return nil, err
		}
	}
	link := d.images.mount(name)
	if err := errors.Join(ignoreMissing(os.Remove(link)), os.Symlink(at, link)); err != nil {
		return nil, err
	}
	// A volume made of a smaller snapshot.
	return &csi.NodeStageVolumeResponse{}, d.fillDevice(at)
}

func (d *driver) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := mount.CleanupMountPoint(request.GetStagingTargetPath(), d.mounter, true); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, ignoreMissing(os.Remove(d.images.mount(request.GetVolumeId())))
}

func (d *driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	at := request.GetTargetPath()
	mounted, err := d.isMounted(at)
	if err != nil || mounted {
		return &csi.NodePublishVolumeResponse{}, err
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		return nil, err
	}
	options := []string{"bind"}
	if request.GetReadonly() {
		options = append(options, "ro")
	}
	return &csi.NodePublishVolumeResponse{}, d.mounter.Mount(request.GetStagingTargetPath(), at, "", options)
}

func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, mount.CleanupMountPoint(request.GetTargetPath(), d.mounter, true)
}

// NodeExpandVolume makes image, loop device and filesystem larger while pods use them.
func (d *driver) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	name, wanted := request.GetVolumeId(), request.GetCapacityRange().GetRequiredBytes()
	bytes, err := d.images.volumeBytes(name)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s is not on node %s: %v", name, d.node, err)
	}
	if bytes < wanted {
		if err := os.Truncate(d.images.volume(name), wanted); err != nil {
			return nil, err
		}
		bytes = wanted
	}
	at, err := d.mountedAt(name)
	if err != nil {
		return nil, err
	}
	if at == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is not mounted", name)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: bytes}, d.fillDevice(at)
}

// fillDevice makes a mounted filesystem as large as its image.
func (d *driver) fillDevice(at string) error {
	device, _, err := mount.GetDeviceNameFromMount(d.mounter, at)
	if err != nil {
		return err
	}
	if err := makeLoopDevice(device); err != nil {
		return err
	}
	if err := run("losetup", "--set-capacity", device); err != nil {
		return err
	}
	return run("xfs_growfs", "-d", at)
}

func (d *driver) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	var stats unix.Statfs_t
	if err := unix.Statfs(request.GetVolumePath(), &stats); err != nil {
		return nil, status.Errorf(codes.NotFound, "%s: %v", request.GetVolumePath(), err)
	}
	block := int64(stats.Bsize)
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{
			Unit: csi.VolumeUsage_BYTES, Total: int64(stats.Blocks) * block, Available: int64(stats.Bavail) * block,
			Used: int64(stats.Blocks-stats.Bfree) * block,
		},
		{
			Unit: csi.VolumeUsage_INODES, Total: int64(stats.Files), Available: int64(stats.Ffree), Used: int64(stats.Files - stats.Ffree),
		},
	}}, nil
}

// mountedAt is where a volume is mounted, or "". A link may be older than the last restart of the node.
func (d *driver) mountedAt(volume string) (string, error) {
	at, err := os.Readlink(d.images.mount(volume))
	if err != nil {
		return "", ignoreMissing(err)
	}
	mounted, err := d.isMounted(at)
	if err != nil || !mounted {
		return "", err
	}
	return at, nil
}

func (d *driver) isMounted(at string) (bool, error) {
	mounted, err := d.mounter.IsMountPoint(at)
	return mounted, ignoreMissing(err)
}

// makeLoopDevices makes the files of the loop devices that the kernel gives out next.
func makeLoopDevices() error {
	const ahead = 8
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	free, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return fmt.Errorf("the kernel has no free loop device: %w", err)
	}
	for minor := range ahead {
		if err := makeLoopDevice(fmt.Sprintf("/dev/loop%d", free+minor)); err != nil {
			return err
		}
	}
	return nil
}

// makeLoopDevice makes the file of one: a container has only those that were there when it was made.
func makeLoopDevice(path string) error {
	const major = 7
	var minor uint32
	if _, err := fmt.Sscanf(path, "/dev/loop%d", &minor); err != nil {
		return fmt.Errorf("%s is no loop device: %w", path, err)
	}
	err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor)))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
