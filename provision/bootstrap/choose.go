package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// Choice is what is done about a resource that exists outside the stack and has the name of one of the stack's.
type Choice struct {
	ID   string `json:"resource"`
	Name string `json:"name"`
	// Adopted reports whether the resource becomes part of the stack; otherwise the stack's gets the name Instead.
	Adopted bool   `json:"adopted"`
	Instead string `json:"instead,omitempty"`
	// Why it is not adopted.
	Why string `json:"why,omitempty"`
	// Also are policies of an adopted role that the stack's own would not have.
	Also []string `json:"also,omitempty"`
}

// String returns the choice in words.
func (c Choice) String() string {
	if c.Adopted {
		text := c.Name + " exists: it is imported into the stack unchanged, and kept when the stack is deleted"
		if len(c.Also) > 0 {
			text += "; it also has " + shortlist.Join(c.Also, maxAlso, ", ") + ", which all nodes get"
		}
		return text
	}
	return fmt.Sprintf("%s exists, and is not changed: the stack's is named %s (%s)", c.Name, c.Instead, c.Why)
}

// propertyOfName are the properties that name resources.
var propertyOfName = []string{"RoleName", "InstanceProfileName", "ManagedPolicyName", "QueueName", "Name"}

// NamesIn returns the names that a template gives.
func (t Template) NamesIn() Names {
	names := Names{}
	for id, r := range t.Resources {
		for _, property := range propertyOfName {
			if name, is := r.Properties[property].(string); is {
				names[id] = name
			}
		}
	}
	return names
}

// Choose sets the names and adopted resources of a Spec. Those of the current template, which has no resources before the
// stack is created, are kept. Found are the resources that have a default name and are not in the stack, by logical ID,
// with the roles among them.
func (s *Spec) Choose(current Template, found map[string]*cloud.Role) []Choice {
	s.Names, s.Adopted = current.NamesIn(), map[string]map[string]any{}
	for id, r := range current.Resources {
		if r.DeletionPolicy == retain {
			s.Adopted[id] = r.Properties
		}
	}
	var choices []Choice
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if s.Names[id] != "" {
			continue
		}
		c := Choice{ID: id, Name: nameOf(id, s.Cluster.Name)}
		if c.Why = s.whyNotAdopted(id, found[id]); c.Why == "" {
			c.Adopted, c.Also = true, s.beside(found[id])
			s.Adopted[id] = propertiesOf(*found[id])
		} else {
			c.Instead = otherName(id, s.Cluster.Name)
			s.Names[id] = c.Instead
		}
		choices = append(choices, c)
	}
	return choices
}

// whyNotAdopted returns why a resource does not become part of the stack; empty if it does. Only a role of nodes does, and
// only if it needs no change: the other roles get policies that the stack creates.
func (s *Spec) whyNotAdopted(id string, role *cloud.Role) string {
	if id != NodeRole || role == nil {
		return "only a role of nodes can be adopted"
	}
	if owner := role.Tags["aws:cloudformation:stack-name"]; owner != "" {
		return "it belongs to the stack " + owner
	}
	var services []string
	for _, by := range iam.EC2(s.partition()) {
		services = append(services, by.Principal)
	}
	if others, err := iam.TrustedBeside(role.Trust, services); err != nil || len(others) > 0 {
		return "its trust policy also names " + shortlist.Join(others, maxAlso, ", ")
	}
	for _, by := range iam.EC2(s.partition()) {
		answer, _, err := iam.Trusts(role.Trust, by)
		if err != nil || answer.Decision != iam.Allowed {
			return "its trust policy does not allow sts:AssumeRole to " + by.Principal
		}
		if s.partition() != "aws-cn" {
			break
		}
	}
	for _, name := range nodePolicies {
		arn := fmt.Sprintf("arn:%s:iam::aws:policy/%s", s.partition(), name)
		if !slices.ContainsFunc(role.Policies, func(p cloud.RolePolicy) bool { return p.ARN == arn }) {
			return "it does not have the policy " + name
		}
	}
	return ""
}

// maxAlso limits the policies that a sentence names.
const maxAlso = 5

// beside returns the policies of a role of nodes that the stack's own would not have.
func (s *Spec) beside(role *cloud.Role) (names []string) {
	for _, p := range role.Policies {
		if !slices.ContainsFunc(nodePolicies, func(name string) bool { return p.ARN == fmt.Sprintf("arn:%s:iam::aws:policy/%s", s.partition(), name) }) {
			names = append(names, "the policy "+p.Name)
		}
	}
	return names
}

// propertiesOf returns the properties of a role as it is. Policies in the role are not among them: CloudFormation leaves
// those that a template does not name.
func propertiesOf(role cloud.Role) map[string]any {
	var trust any
	if json.Unmarshal([]byte(role.Trust), &trust) != nil {
		trust = role.Trust // judged before: iam.Trusts has read it
	}
	var attached []string
	for _, p := range role.Policies {
		if p.ARN != "" {
			attached = append(attached, p.ARN)
		}
	}
	properties := map[string]any{
		"RoleName": role.ARN[strings.LastIndex(role.ARN, "/")+1:], "AssumeRolePolicyDocument": trust, "ManagedPolicyArns": attached,
	}
	if role.Description != "" {
		properties["Description"] = role.Description
	}
	if role.Boundary != nil {
		properties["PermissionsBoundary"] = role.Boundary.ARN
	}
	if _, path, found := strings.Cut(role.ARN, ":role/"); found && strings.Contains(path, "/") {
		properties["Path"] = "/" + path[:strings.LastIndex(path, "/")+1]
	}
	return properties
}
