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

// roles selects plumbline's roles. Some of them contain Karpenter's own rules, which allow some of what the others do.
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

// role is a ClusterRole or a Role of plumbline's.
type role struct {
	namespace, name string // without a namespace, a ClusterRole
	rules           []rbacv1.PolicyRule
}

// roles returns plumbline's roles, of all namespaces.
func (s *story) roles() ([]role, error) {
	client, selected := s.c.Kube.Client.RbacV1(), metav1.ListOptions{LabelSelector: roles}
	wide, err := client.ClusterRoles().List(s.ctx, selected)
	if err != nil {
		return nil, err
	}
	narrow, err := client.Roles(metav1.NamespaceAll).List(s.ctx, selected)
	if err != nil {
		return nil, err
	}
	var all []role
	for _, r := range wide.Items {
		all = append(all, role{name: r.Name, rules: r.Rules})
	}
	for _, r := range narrow.Items {
		all = append(all, role{r.Namespace, r.Name, r.Rules})
	}
	return all, nil
}

// give sets the rules of a role.
func (s *story) give(r role) error {
	client := s.c.Kube.Client.RbacV1()
	if r.namespace == "" {
		live, err := client.ClusterRoles().Get(s.ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		live.Rules = r.rules
		_, err = client.ClusterRoles().Update(s.ctx, live, metav1.UpdateOptions{})
		return err
	}
	live, err := client.Roles(r.namespace).Get(s.ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	live.Rules = r.rules
	_, err = client.Roles(r.namespace).Update(s.ctx, live, metav1.UpdateOptions{})
	return err
}

func (s *story) takeVerb(verb, resource string) error {
	live, err := s.roles()
	if err != nil {
		return err
	}
	taken := false
	for _, r := range live {
		less := slices.Clone(r.rules)
		for i := range less {
			less[i] = *less[i].DeepCopy()
		}
		if !without(less, verb, resource) {
			continue
		}
		taken = true
		s.lost = append(s.lost, r)
		if err := s.give(role{r.namespace, r.name, less}); err != nil {
			return err
		}
	}
	if !taken {
		return fmt.Errorf("no role of plumbline's allows %s on %s", verb, resource)
	}
	return nil
}

// without removes a verb from rules, and reports whether one contained it.
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

// restoreRoles restores what was removed, the last first: a role may have lost two verbs.
func (s *story) restoreRoles() error {
	for _, r := range slices.Backward(s.lost) {
		if err := s.give(r); err != nil {
			return err
		}
	}
	s.lost = nil
	return nil
}
