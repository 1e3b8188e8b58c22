package stories_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

// Commands for what another tool or person does with Karpenter's charts, using helm and kubectl.

var errKarpenterUsage = errors.New("usage: karpenter images VERSION…, karpenter crds|controller|both VERSION [VALUE=…], karpenter leads [-t D] VERSION, karpenter revision RELEASE STATUS|cut-off, karpenter pause|cont, karpenter gone")

func (s *story) karpenterCommand(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 0:
		return errKarpenterUsage
	case args[0] == "images":
		return s.c.PullControllers(s.ctx, args[1:]...)
	case args[0] == "gone" && len(args) == 1:
		return s.uninstallKarpenter()
	case args[0] == "pause" && len(args) == 1:
		return s.c.Karpenter.Pause()
	case args[0] == "cont" && len(args) == 1:
		return s.c.Karpenter.Continue()
	case args[0] == "revision":
		return s.breakRevision(args[1:])
	case args[0] == "leads":
		return s.karpenterLeads(args[1:])
	case len(args) > 1:
		return s.installKarpenter(args[0], args[1], args[2:])
	}
	return errKarpenterUsage
}

func (s *story) installKarpenter(what, version string, values []string) error {
	if what == "crds" || what == "both" {
		if err := s.c.InstallCRDs(s.ctx, version); err != nil {
			return err
		}
	}
	switch what {
	case "crds":
		return nil
	case "controller", "both":
		return s.c.InstallController(s.ctx, version, values...)
	}
	return errKarpenterUsage
}

func (s *story) karpenterLeads(args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return errKarpenterUsage
	}
	return s.poll(timeout, func(ctx context.Context) error { return s.c.Leads(ctx, args[0]) })
}

func (s *story) uninstallKarpenter() error {
	return errors.Join(
		s.must("helm", "uninstall", charts.MainChart, "--namespace", sandbox.ChartNamespace, "--ignore-not-found", "--wait"),
		s.must("helm", "uninstall", charts.CRDChart, "--namespace", sandbox.ChartNamespace, "--ignore-not-found", "--wait"),
		s.deleteCRDs(),
	)
}

// deleteCRDs deletes the CRDs that do not belong to a release.
func (s *story) deleteCRDs() error {
	for _, crd := range s.c.list(s.ctx, "crd") {
		for _, group := range []string{".karpenter.sh", ".karpenter.k8s.aws", "capacitybuffers.autoscaling.x-k8s.io"} {
			if !strings.HasSuffix(crd.GetName(), group) {
				continue
			}
			if err := s.must("kubectl", "delete", "crd", crd.GetName(), "--ignore-not-found"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *story) crdsByKubectlCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: crds-by-kubectl VERSION")
	}
	crds, err := s.c.Charts.CRDs(s.ctx, args[0])
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "crds-"+args[0]+".yaml")
	if err := os.WriteFile(path, crds, 0o600); err != nil {
		return err
	}
	return s.must("kubectl", "apply", "-f", path)
}
