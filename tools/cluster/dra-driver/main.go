// Runs Kubernetes' own DRA test driver with devices of our own.
//
// The test driver's command offers devices without attributes. This program reads the offer of
// each driver from a file, and lets the test driver's package do the rest: it publishes the
// ResourceSlices, registers with the kubelet and prepares claims. It is built within the module
// k8s.io/kubernetes (go build -overlay).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/kubernetes/test/e2e/dra/test-driver/app"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "who speaks with the API server")
	node := flag.String("node", "", "name of the node; each driver's pool has it too")
	offers := flag.String("offers", "", "JSON file: name of a driver to its devices, as a ResourceSlice has them")
	cdi := flag.String("cdi", "", "folder for CDI files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *kubeconfig, *node, *offers, *cdi); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
}

// serve starts a driver for each that the file names.
func serve(ctx context.Context, kubeconfig, node, offers, cdi string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(offers)
	if err != nil {
		return err
	}
	var drivers map[string][]resourceapi.Device
	if err := json.Unmarshal(text, &drivers); err != nil {
		return err
	}
	for name, devices := range drivers {
		if err := start(ctx, client, node, cdi, name, devices); err != nil {
			return err
		}
	}
	return nil
}

// start makes one driver known to the kubelet and publishes what it offers.
func start(ctx context.Context, client kubernetes.Interface, node, cdi, name string, devices []resourceapi.Device) error {
	folder := filepath.Join(kubeletplugin.KubeletPluginsDir, name)
	for _, each := range []string{folder, cdi, kubeletplugin.KubeletRegistryDir} {
		if err := os.MkdirAll(each, 0o750); err != nil {
			return err
		}
	}
	offer := resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{
			node: {Slices: []resourceslice.Slice{{Devices: devices}}},
		},
	}
	_, err := app.StartPlugin(ctx, cdi, name, client, node,
		app.FileOperations{DriverResources: &offer},
		kubeletplugin.PluginDataDirectoryPath(folder),
	)
	return err
}
