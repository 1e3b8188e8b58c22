package stories_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
)

// argoLooks is how often Argo CD polls Git.
const argoLooks = 2 * time.Second

// peerCommand is `NAME start|stop` of a peer.
func peerCommand(name string) func(*story, *testscript.TestScript, []string) error {
	return func(s *story, ts *testscript.TestScript, args []string) error {
		running := s.peers[name]
		switch {
		case len(args) == 1 && args[0] == "start" && running == nil:
			return s.startPeer(ts, name)
		case len(args) == 1 && args[0] == "stop" && running != nil:
			running.Stop()
			delete(s.peers, name)
			return nil
		}
		return errors.New("usage: " + name + " start, and then " + name + " stop")
	}
}

// peerSecret gives Flux and Argo CD the credentials for a repository, each in its own format.
const peerSecret = `apiVersion: v1
kind: Secret
metadata: {name: git, namespace: %s, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: %q, username: %q, password: %q}
`

// startPeer starts a peer with access to the story's repository.
func (s *story) startPeer(ts *testscript.TestScript, name string) error {
	builder, err := binaries.Here(s.t.Output())
	if err != nil {
		return err
	}
	o := peers.Options{Kube: s.c.Kube, Builder: builder, Dir: filepath.Join(s.dir, "peers")}
	if s.peers["notification-controller"] != nil {
		o.Events = ts.Getenv("EVENTS")
	}
	namespace := peers.FluxNamespace
	switch name {
	case "flux":
		s.peers[name], err = peers.StartFlux(s.ctx, o)
	case "helm-controller":
		s.peers[name], err = peers.StartHelmController(s.ctx, o)
	case "notification-controller":
		var events string
		s.peers[name], events, err = peers.StartNotificationController(s.ctx, o)
		ts.Setenv("EVENTS", events)
	case "argocd-notifications":
		s.peers[name], err = peers.StartArgoCDNotifications(s.ctx, o)
		namespace = peers.ArgoCDNamespace
	default:
		namespace = peers.ArgoCDNamespace
		s.peers[name], err = peers.StartArgoCD(s.ctx, o, argoLooks)
	}
	if err != nil {
		delete(s.peers, name)
		return err
	}
	return s.apply(fmt.Appendf(nil, peerSecret, namespace, s.repo.HTTPURL, s.c.Git.Admin.Name, s.c.Git.Admin.Token))
}

// stopPeers stops the running peers.
func (s *story) stopPeers() {
	for _, running := range s.peers {
		running.Stop()
	}
}

// peerLogs returns the logs of the running peers.
func (s *story) peerLogs() (all []string) {
	for _, running := range s.peers {
		all = append(all, running.Logs()...)
	}
	return all
}
