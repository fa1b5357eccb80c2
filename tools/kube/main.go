// One program that is etcd, kube-apiserver, kube-controller-manager, kube-scheduler or an emptier of namespaces: by its
// first argument.
//
// The parts of a control plane share most of their code, so one program of all is hardly larger than the
// API server, and is compiled and linked once.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

var parts = map[string]func(arguments []string) int{
	"etcd":                    func(arguments []string) int { etcdmain.Main(arguments); return 0 },
	"kube-apiserver":          func([]string) int { return run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func([]string) int { return run(controllers.NewControllerManagerCommand()) },
	"kube-scheduler":          func([]string) int { return run(scheduler.NewSchedulerCommand()) },
	"namespaces":              emptyNamespaces,
}

func main() {
	if len(os.Args) > 1 {
		if part, found := parts[os.Args[1]]; found {
			if os.Getenv("CONTROLPLANE_WITH_PARENT") != "" {
				go endWithParent()
			}
			os.Args = os.Args[1:] // each part reads its flags as if it had been started alone
			os.Exit(part(os.Args))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|namespaces [flags]")
	os.Exit(2)
}

// endWithParent ends the process when whoever holds the other end of its standard input is gone, however that came.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

func run(command *cobra.Command) int { return cli.Run(command) }
