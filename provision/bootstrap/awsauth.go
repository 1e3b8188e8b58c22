package bootstrap

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// authEntry is one entry of mapRoles in the ConfigMap aws-auth.
type authEntry struct {
	RoleARN  string   `json:"rolearn"`
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// nodeGroups are the groups of kubelets: https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
var nodeGroups = []string{"system:bootstrappers", "system:nodes"}

// AuthEntry returns the entry that lets nodes with a role join, as a person would add it. The ARN has no path: EKS ignores
// those of roles there.
func AuthEntry(roleARN string) string {
	return "- rolearn: " + withoutPath(roleARN) + "\n  username: system:node:{{EC2PrivateDNSName}}\n  groups:\n  - " +
		strings.Join(nodeGroups, "\n  - ") + "\n"
}

func withoutPath(arn string) string {
	before, path, found := strings.Cut(arn, ":role/")
	if !found {
		return arn
	}
	return before + ":role/" + path[strings.LastIndex(path, "/")+1:]
}

// MergeAuth returns mapRoles of aws-auth with the entry of a role of nodes added to its end. Everything else in the text
// stays as it is, comments included. It returns the same text if the entry exists. Errors: the text is not a list of
// entries, or has the role with other groups.
func MergeAuth(mapRoles, roleARN string) (string, error) {
	before, err := parseAuth(mapRoles)
	if err != nil {
		return "", err
	}
	for _, entry := range before {
		if entry.RoleARN != withoutPath(roleARN) {
			continue
		}
		if slices.Contains(entry.Groups, "system:nodes") {
			return mapRoles, nil
		}
		return "", fmt.Errorf("ConfigMap kube-system/aws-auth has the role %s with the groups %s, which are not those of nodes: "+
			"change that entry",
			entry.RoleARN, strings.Join(entry.Groups, ", "))
	}
	entry := AuthEntry(roleARN)
	if len(before) == 0 {
		return entry, nil
	}
	indent := mapRoles[:len(mapRoles)-len(strings.TrimLeft(mapRoles, " "))]
	for _, line := range strings.Split(mapRoles, "\n") {
		if text := strings.TrimLeft(line, " "); strings.HasPrefix(text, "- ") {
			indent = line[:len(line)-len(text)]
			break
		}
	}
	merged := strings.TrimRight(mapRoles, "\n") + "\n" + indent +
		strings.ReplaceAll(strings.TrimSuffix(entry, "\n"), "\n", "\n"+indent) + "\n"
	after, err := parseAuth(merged)
	if err != nil || len(after) != len(before)+1 || after[len(before)].RoleARN != withoutPath(roleARN) {
		return "", fmt.Errorf("no entry can be added to the text of mapRoles in ConfigMap kube-system/aws-auth; add it yourself:\n%s", entry)
	}
	return merged, nil
}

// RemoveAuth returns mapRoles without the entry that MergeAuth adds. It returns the same text if there is none, or if it was
// changed since.
func RemoveAuth(mapRoles, roleARN string) string {
	lines := strings.SplitAfter(mapRoles, "\n")
	entry := strings.SplitAfter(strings.TrimSuffix(AuthEntry(roleARN), "\n"), "\n")
	for i := range lines {
		if i+len(entry) > len(lines) {
			break
		}
		same := true
		for j, want := range entry {
			same = same && strings.TrimSpace(lines[i+j]) == strings.TrimSpace(want)
		}
		if same {
			return strings.Join(slices.Delete(lines, i, i+len(entry)), "")
		}
	}
	return mapRoles
}

// parseAuth returns the entries of mapRoles. Errors: it is malformed.
func parseAuth(mapRoles string) ([]authEntry, error) {
	var entries []authEntry
	if err := yaml.UnmarshalStrict([]byte(mapRoles), &entries); err != nil {
		return nil, fmt.Errorf("mapRoles of ConfigMap kube-system/aws-auth is malformed, and is not changed: %w", err)
	}
	for i, entry := range entries {
		if entry.RoleARN == "" {
			return nil, fmt.Errorf("mapRoles of ConfigMap kube-system/aws-auth is malformed, and is not changed: entry %d has no rolearn", i+1)
		}
	}
	return entries, nil
}

// RoleARN returns the ARN of a role of a cluster's account, in the cluster's partition.
func RoleARN(clusterARN, name string) string {
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", partitionOf(clusterARN), cloud.AccountOf(clusterARN), name)
}
