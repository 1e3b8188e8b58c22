package stories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// Commands for the nodes that Karpenter does not launch, and for the add-ons of EKS.

// groupCommand is `aws nodegroup|scaling FILE`, `aws fargate NAME NAMESPACE` and `aws applies ADDON NAMESPACE/DEPLOYMENT`. The
// end of the story reverts each.
func (s *story) groupCommand(ts *testscript.TestScript, args []string) error {
	switch {
	case args[0] == "nodegroup" && len(args) == 2:
		return s.addNodeGroup(s.expand(ts.ReadFile(args[1])))
	case args[0] == "scaling" && len(args) == 2:
		group := awssim.ScalingGroup{}
		if err := json.Unmarshal([]byte(s.expand(ts.ReadFile(args[1]))), &group); err != nil {
			return err
		}
		s.undo = append(s.undo, func(context.Context) error { s.c.AWS.RemoveScalingGroup(group.Name); return nil })
		return s.c.AWS.AddScalingGroup(s.c.Cluster, group)
	case args[0] == "fargate" && len(args) == 3:
		profile := awssim.FargateProfile{Name: args[1], Selectors: []awssim.FargateSelector{{Namespace: args[2]}}}
		s.undo = append(s.undo, func(context.Context) error { return s.c.AWS.SetFargateProfile(s.c.Cluster, profile, false) })
		return s.c.AWS.SetFargateProfile(s.c.Cluster, profile, true)
	case args[0] == "applies" && len(args) == 3:
		namespace, name, _ := strings.Cut(args[2], "/")
		return s.applyAddon(args[1], namespace, name)
	}
	return errors.New("usage: " + preflightUsage)
}

// addNodeGroup adds a managed node group, from awssim.NodeGroup as JSON, until the end of the story.
func (s *story) addNodeGroup(text string) error {
	group := awssim.NodeGroup{}
	if err := json.Unmarshal([]byte(text), &group); err != nil {
		return err
	}
	s.undo = append(s.undo, func(context.Context) error { s.c.AWS.RemoveNodeGroup(s.c.Cluster, group.Name); return nil })
	return s.c.AWS.AddNodeGroup(s.c.Cluster, group)
}

// applyAddon writes the affinity of an add-on's values into its Deployment, as field manager eks, and without one the
// affinity that the Deployment has now.
func (s *story) applyAddon(addon, namespace, name string) error {
	deployments := s.c.Kube.Client.AppsV1().Deployments(namespace)
	before, err := deployments.Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	original := any(before.Spec.Template.Spec.Affinity)
	s.undo = append(s.undo, func(context.Context) error {
		s.c.AWS.SubscribeAddons(nil)
		return s.c.AWS.SetAddonValues(s.c.Cluster, addon, "")
	})
	s.c.AWS.SubscribeAddons(func(v awssim.AddonValues) {
		if v.Cluster != s.c.Cluster || v.Addon != addon {
			return
		}
		var values struct{ Affinity any }
		if json.Unmarshal([]byte(v.Values), &values) == nil && values.Affinity == nil {
			values.Affinity = original
		}
		patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/spec/template/spec/affinity", "value": values.Affinity}})
		if err == nil {
			_, err = deployments.Patch(s.ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "eks"})
		}
		if err != nil {
			s.t.Logf("apply the values of add-on %s: %v", addon, fmt.Errorf("patch deployment %s/%s: %w", namespace, name, err))
		}
	})
	return nil
}
