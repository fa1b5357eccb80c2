package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

const (
	emptiers   = 10                     // namespaces that are emptied at once
	lookAgain  = 250 * time.Millisecond // what ends by itself (pods in their grace) is looked for this often
	apiRequest = 5000                   // a second: the API server's own limits are enough
)

// emptyNamespaces stands in for kube-controller-manager's namespace controller, with the same deleter.
// That one waits 5 s before it touches a deleted namespace and up to 16 s while pods end, which each test
// that makes a namespace of its own would wait for.
func emptyNamespaces(arguments []string) int {
	flags := flag.NewFlagSet("namespaces", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	_ = flags.Parse(arguments[1:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serveNamespaces(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "namespaces:", err)
		return 1
	}
	return 0
}

func serveNamespaces(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = apiRequest, apiRequest
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	deleter := deletion.NewNamespacedResourcesDeleter(ctx, client.CoreV1().Namespaces(), objects, client.CoreV1(),
		client.Discovery().ServerPreferredNamespacedResources, core.FinalizerKubernetes)

	queue := workqueue.NewTypedDelayingQueue[string]()
	see := func(object any) {
		if namespace := object.(*core.Namespace); namespace.DeletionTimestamp != nil {
			queue.Add(namespace.Name)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, namespace any) { see(namespace) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for range emptiers {
		go wait.UntilWithContext(ctx, func(ctx context.Context) { emptyNext(ctx, deleter, queue) }, 0)
	}
	<-ctx.Done()
	queue.ShutDown()
	return nil
}

func emptyNext(ctx context.Context, deleter deletion.NamespacedResourcesDeleterInterface, queue workqueue.TypedDelayingInterface[string]) {
	name, ended := queue.Get()
	if ended {
		return
	}
	defer queue.Done(name)
	if err := deleter.Delete(ctx, name); err != nil {
		queue.AddAfter(name, lookAgain) // what is left, or the API server is away
	}
}
