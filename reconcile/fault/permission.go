package fault

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// refusal is how the API server says that no role allows a request
// (k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go).
var refusal = regexp.MustCompile(`User "([^"]+)" cannot (\w+) resource "([^"]+)" in API group "([^"]*)" (?:at the cluster scope|in the namespace "([^"]+)")`)

// missingRule is the rule that allows what the API server's words in a message say
// is not allowed; empty where nothing was refused for want of a role.
func missingRule(message string) string {
	var rules []string
	for _, words := range refusal.FindAllStringSubmatch(message, -1) {
		user, verb, resource, group, namespace := words[1], words[2], words[3], words[4], words[5]
		role := "a ClusterRole"
		if namespace != "" {
			role = "a Role in namespace " + namespace
		}
		rules = append(rules, fmt.Sprintf("give %s, in %s, the rule {apiGroups: [%q], resources: [%q], verbs: [%q]}", account(user), role, group, resource, verb))
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), "; ")
}

// notAllowed says in short what no role allows; empty where nothing was refused for
// want of a role.
func notAllowed(message string) string {
	words := refusal.FindStringSubmatch(message)
	if words == nil {
		return ""
	}
	user, verb, resource, group, namespace := words[1], words[2], words[3], words[4], words[5]
	role := "ClusterRole"
	if namespace != "" {
		role = "Role in namespace " + namespace
	}
	if group != "" {
		resource += "." + group
	}
	return fmt.Sprintf("%s may not %s %s: add the rule to its %s", account(user), verb, resource, role)
}

// account is a user as people know it.
func account(user string) string {
	if name, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		return "ServiceAccount " + strings.Replace(name, ":", "/", 1)
	}
	return "user " + user
}
