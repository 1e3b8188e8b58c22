package stories_test

import (
	"context"
	"errors"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes"
)

// kubeletCommand is `kubelet breaks NODES [pods=PODS] [resource=RESOURCE]`, until `kubelet works` or the story ends.
func (s *story) kubeletCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 1 && args[0] == "works" {
		for _, stop := range s.broken {
			stop()
		}
		s.broken = nil
		return nil
	}
	if len(args) < 2 || args[0] != "breaks" {
		return errors.New("usage: kubelet breaks NODE-LABEL=VALUE [pods=LABEL=VALUE] [resource=RESOURCE], or kubelet works")
	}
	fault := nodes.Broken{Nodes: args[1]}
	for _, setting := range args[2:] {
		switch name, value, _ := strings.Cut(setting, "="); name {
		case "pods":
			fault.Pods = value
		case "resource":
			fault.Resource = value
		default:
			return errors.New("unknown setting " + setting)
		}
	}
	ctx, stop := context.WithCancel(s.ctx)
	s.broken = append(s.broken, stop)
	ts.Defer(stop)
	go nodes.Break(ctx, s.c.Kube.Client, fault)
	return nil
}
