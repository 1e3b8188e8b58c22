package allowance

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// aggregated is the one ClusterRole of the charts that is for others, and the label that
// adds its rules to theirs.
const (
	aggregated      = "karpenter-admin"
	aggregatedLabel = "rbac.authorization.k8s.io/aggregate-to-admin"
)

// role checks that a role gives no right that the real one does not give.
func (c *check) role() error {
	var role rbacv1.ClusterRole // a Role has its rules in the same place
	if err := c.into(&role); err != nil {
		return err
	}
	if role.AggregationRule != nil {
		c.refuse("takes its rules from other roles")
	}
	beyond := c.charts.beyond(c.name(), role.Rules)
	if len(beyond) == 0 {
		return nil
	}
	more := beyond[:min(most, len(beyond))]
	c.unless("additionalClusterRoleRules", "gives rights that it has in no chart of Karpenter's: "+strings.Join(more, ", "))
	return nil
}

// binding checks that a role is given only to Karpenter's ServiceAccount.
func (c *check) binding() error {
	var binding rbacv1.ClusterRoleBinding
	if err := c.into(&binding); err != nil {
		return err
	}
	if want := strings.TrimSuffix(binding.Kind, "Binding"); binding.RoleRef.Kind != want || binding.RoleRef.Name != binding.Name {
		c.refuse("binds another role than %s %s", want, binding.Name)
	}
	others := slices.DeleteFunc(binding.Subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == account && s.Namespace == c.rendered.Namespace
	})
	if len(others) > 0 {
		c.refuse("gives rights to others than ServiceAccount %s/%s", c.rendered.Namespace, account)
	}
	return nil
}
