package stories_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// roles select plumbline's ClusterRoles. Karpenter's own rules, which one of them
// holds, allow some of what the others do.
const roles = "app.kubernetes.io/part-of=plumbline"

// tokenCommand is `token FILE`.
func (s *story) tokenCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: token FILE")
	}
	return s.c.Kube.ServiceAccountKubeconfig(s.ctx, ts.MkAbs(args[0]), daemon.Namespace, daemon.ServiceAccount, nil)
}

// rbacCommand is `rbac take VERB RESOURCE`, or `rbac give`.
func (s *story) rbacCommand(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "give":
		return s.restoreRoles()
	case len(args) == 3 && args[0] == "take":
		return s.takeVerb(args[1], args[2])
	}
	return errors.New("usage: rbac take VERB RESOURCE, or rbac give")
}

func (s *story) takeVerb(verb, resource string) error {
	client := s.c.Kube.Client.RbacV1().ClusterRoles()
	live, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: roles})
	if err != nil {
		return err
	}
	if s.lost == nil {
		s.lost = live.DeepCopy().Items
	}
	taken := false
	for i := range live.Items {
		if !without(live.Items[i].Rules, verb, resource) {
			continue
		}
		taken = true
		if _, err := client.Update(s.ctx, &live.Items[i], metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if !taken {
		return fmt.Errorf("no ClusterRole of plumbline's allows %s on %s", verb, resource)
	}
	return nil
}

// without takes a verb out of rules, and says whether it was in one.
func without(rules []rbacv1.PolicyRule, verb, resource string) bool {
	taken := false
	for i := range rules {
		if slices.Contains(rules[i].Resources, resource) && slices.Contains(rules[i].Verbs, verb) {
			rules[i].Verbs = slices.DeleteFunc(rules[i].Verbs, func(v string) bool { return v == verb })
			taken = true
		}
	}
	return taken
}

// restoreRoles gives back what was taken.
func (s *story) restoreRoles() error {
	client := s.c.Kube.Client.RbacV1().ClusterRoles()
	for _, role := range s.lost {
		live, err := client.Get(s.ctx, role.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Rules = role.Rules
		if _, err := client.Update(s.ctx, live, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	s.lost = nil
	return nil
}
