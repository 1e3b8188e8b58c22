package iam

import (
	"strings"
)

// Template is a policy of plumbline, with ${PARTITION}, ${REGION}, ${ACCOUNT} and ${CLUSTER_NAME} to replace.
type Template struct {
	// Prefix is the name of the policy without the cluster's; it ends with a hyphen.
	Prefix, Description, Text string
}

// Plumbline returns policies of plumbline for a cluster. Errors: an invalid cluster, or template.
func Plumbline(c Cluster, templates ...Template) ([]Policy, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("${PARTITION}", c.partition(), "${REGION}", c.Region, "${ACCOUNT}", c.Account, "${CLUSTER_NAME}", c.Name)
	policies := make([]Policy, 0, len(templates))
	for _, t := range templates {
		d, err := Parse([]byte(fill.Replace(t.Text)))
		if err != nil {
			return nil, err
		}
		policies = append(policies, newPolicy(t.Prefix, t.Description, c, d.Statement))
	}
	return policies, nil
}
