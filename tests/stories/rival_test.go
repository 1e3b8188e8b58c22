package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

var errRivalUsage = errors.New("usage: rival start [VALUE=…], rival stop, rival kubectl ARGS, rival contexts FILE, rival [-t D] count =|>= N, rival keep, rival kept")

// rivalCommand controls a second cluster of the account, with a control plane and a Karpenter of its own, which uses the
// name of the story's cluster.
func (s *story) rivalCommand(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "start":
		err := s.startRival(args[1:])
		if s.rival != nil {
			ts.Setenv("RIVAL", s.rival.Kube.Endpoint)
		}
		return err
	case s.rival == nil:
		return errors.New("there is no rival: rival start")
	case len(args) == 1 && args[0] == "stop":
		return s.stopRival()
	case len(args) > 1 && args[0] == "kubectl":
		return s.must("kubectl", append([]string{"--kubeconfig", s.rival.Kube.Kubeconfig}, args[1:]...)...)
	case len(args) == 2 && args[0] == "contexts":
		return s.writeContexts(ts.MkAbs(args[1]))
	case len(args) == 1 && args[0] == "keep":
		s.rivalKept = s.rivalInstances()
		return nil
	case len(args) == 1 && args[0] == "kept":
		return s.checkRivalKept()
	}
	return s.countRival(args)
}

// startRival starts the cluster, and installs Karpenter with the story's cluster as settings.clusterName.
func (s *story) startRival(values []string) (err error) {
	s.rival, err = sandbox.Up(s.ctx, sandbox.Options{Cluster: "rival-of-" + s.name, Beside: s.c.Sandbox, Progress: os.Stderr})
	if err != nil {
		return err
	}
	if err := s.rival.InstallCRDs(s.ctx, binaries.KarpenterVersion); err != nil {
		return err
	}
	return s.rival.InstallController(s.ctx, binaries.KarpenterVersion,
		append([]string{"settings.clusterName=" + s.c.Cluster, "settings.clusterEndpoint=" + s.rival.Kube.Endpoint}, values...)...)
}

// writeContexts writes a kubeconfig with the contexts ours and theirs.
func (s *story) writeContexts(file string) error {
	both := clientcmdapi.NewConfig()
	for name, path := range map[string]string{"ours": s.c.Kube.Kubeconfig, "theirs": s.rival.Kube.Kubeconfig} {
		one, err := clientcmd.LoadFromFile(path)
		if err != nil {
			return err
		}
		of := one.Contexts[one.CurrentContext]
		both.Clusters[name], both.AuthInfos[name] = one.Clusters[of.Cluster], one.AuthInfos[of.AuthInfo]
		both.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	both.CurrentContext = "ours"
	return clientcmd.WriteToFile(*both, file)
}

// stopRival stops the cluster, and terminates its instances.
func (s *story) stopRival() error {
	if s.rival == nil {
		return nil
	}
	ids := s.rivalInstances()
	err := s.rival.Down()
	for _, id := range ids {
		err = errors.Join(err, s.c.AWS.Terminate(id))
	}
	s.rival = nil
	return err
}

// rivalInstances returns the instances that run for the second cluster: those whose user data has its API server.
func (s *story) rivalInstances() (ids []string) {
	for _, i := range s.c.AWS.State().Instances {
		if s.rival != nil && strings.Contains(i.UserData, s.rival.Kube.Endpoint) && slices.Contains([]string{"pending", "running"}, i.State) {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (s *story) checkRivalKept() error {
	running := s.rivalInstances()
	for _, id := range s.rivalKept {
		if !slices.Contains(running, id) {
			return fmt.Errorf("instance %s of the second cluster was terminated", id)
		}
	}
	return nil
}

// countRival waits until N instances run for the second cluster.
func (s *story) countRival(args []string) error {
	timeout, args, _, err := options(args)
	if err != nil || len(args) != 3 || args[0] != "count" || !slices.Contains([]string{"=", ">="}, args[1]) {
		return errors.Join(errRivalUsage, err)
	}
	want, err := strconv.Atoi(args[2])
	if err != nil {
		return errors.Join(errRivalUsage, err)
	}
	return s.poll(timeout, func(context.Context) error {
		if n := len(s.rivalInstances()); n < want || n > want && args[1] == "=" {
			return fmt.Errorf("instances of the second cluster: got %d, want %s %d", n, args[1], want)
		}
		return nil
	})
}
