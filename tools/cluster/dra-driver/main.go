// Runs Kubernetes' own DRA test driver with devices of our own.
//
// The test driver's command offers devices without attributes. This program reads the offer of
// each driver from a file, and lets the test driver's package do the rest: it publishes the
// ResourceSlices, registers with the kubelet and prepares claims. At SIGHUP it reads another file,
// which says how devices are, and reports that to the kubelet.
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
	health := flag.String("health", "", "JSON file, read at SIGHUP: name of a driver to Healthy or Unhealthy by name of a device")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	plugins, err := serve(ctx, *kubeconfig, *node, *offers, *cdi)
	if err != nil {
		log.Fatal(err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			if err := report(plugins, *node, *health); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// read decodes a JSON file.
func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// report says how devices are.
func report(plugins map[string]*app.ExamplePlugin, node, file string) error {
	var drivers map[string]map[string]string
	if err := read(file, &drivers); err != nil {
		return err
	}
	for name, devices := range drivers {
		for device, health := range devices {
			plugins[name].HealthControlChan <- app.DeviceHealthUpdate{PoolName: node, DeviceName: device, Health: health}
		}
	}
	return nil
}

// serve starts a driver for each that the file names.
func serve(ctx context.Context, kubeconfig, node, offers, cdi string) (map[string]*app.ExamplePlugin, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	var drivers map[string][]resourceapi.Device
	if err := read(offers, &drivers); err != nil {
		return nil, err
	}
	plugins := map[string]*app.ExamplePlugin{}
	for name, devices := range drivers {
		if plugins[name], err = start(ctx, client, node, cdi, name, devices); err != nil {
			return nil, err
		}
	}
	return plugins, nil
}

// start makes one driver known to the kubelet and publishes what it offers.
func start(ctx context.Context, client kubernetes.Interface, node, cdi, name string, devices []resourceapi.Device) (*app.ExamplePlugin, error) {
	folder := filepath.Join(kubeletplugin.KubeletPluginsDir, name)
	for _, each := range []string{folder, cdi, kubeletplugin.KubeletRegistryDir} {
		if err := os.MkdirAll(each, 0o750); err != nil {
			return nil, err
		}
	}
	offer := resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{
			node: {Slices: []resourceslice.Slice{{Devices: devices}}},
		},
	}
	return app.StartPlugin(ctx, cdi, name, client, node,
		app.FileOperations{DriverResources: &offer},
		kubeletplugin.PluginDataDirectoryPath(folder),
	)
}
