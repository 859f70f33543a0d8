// A CSI driver for test clusters. A volume is an XFS filesystem in a file of its node, mounted through a loop device; a snapshot is a
// copy of that file, taken while the filesystem is frozen, as a storage system would take it beneath a running database.
// Volumes and snapshots never leave their node; locate.go tells Kubernetes on which one a snapshot is.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/mount-utils"
)

// driver answers sidecars and kubelet. One call at a time: a volume is not mounted while it is copied.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	name, node string
	images     *images
	mounter    mount.Interface
	turn       sync.Mutex
}

func main() {
	name := flag.String("name", "", "the driver's name, as in StorageClasses")
	node := flag.String("node", "", "the name of this node")
	folder := flag.String("images", "", "the folder for volumes and snapshots")
	socket := flag.String("socket", "", "the socket to answer on")
	hostSocket := flag.String("host-socket", "", "the same, as the kubelet sees it")
	registry := flag.String("registry", "", "the kubelet's folder for sockets of new plugins")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	images, err := openImages(*folder, formatXFS)
	if err != nil {
		log.Fatalf("failed to open the images in %s: %v", *folder, err)
	}
	driver := &driver{name: *name, node: *node, images: images, mounter: mount.New("")}
	if err := driver.thawAll(); err != nil {
		log.Fatalf("failed to thaw what an earlier driver had frozen: %v", err)
	}
	failed := make(chan error)
	server := grpc.NewServer(grpc.UnaryInterceptor(driver.inTurn))
	csi.RegisterIdentityServer(server, driver)
	csi.RegisterControllerServer(server, driver)
	csi.RegisterNodeServer(server, driver)
	go serve(server, *socket, failed)
	kubelet := grpc.NewServer()
	registration.RegisterRegistrationServer(kubelet, registrar{name: *name, socket: *hostSocket})
	go serve(kubelet, *registry+"/"+*name+"-reg.sock", failed)
	go func() { failed <- locate(ctx, *name, *node, images) }()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-ctx.Done():
		// A snapshot that is being taken is finished, and its volume thawed.
		server.GracefulStop()
	}
}

func serve(server *grpc.Server, socket string, failed chan<- error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed <- err
		return
	}
	listener, err := net.Listen("unix", socket)
	if err == nil {
		err = server.Serve(listener)
	}
	failed <- err
}

func (d *driver) inTurn(ctx context.Context, request any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	d.turn.Lock()
	defer d.turn.Unlock()
	answer, err := handle(ctx, request)
	if err != nil {
		log.Printf("%s: %v", call.FullMethod, err)
	}
	return answer, err
}

// registrar tells the kubelet about the driver, which a sidecar does elsewhere.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, socket string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		log.Fatalf("the kubelet refuses the driver: %s", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}
