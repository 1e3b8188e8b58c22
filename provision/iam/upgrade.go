package iam

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// JudgeUpgrade compares the policies of a controller's role with the permissions that an upgrade of Karpenter adds: what the
// earlier version needs as well is not judged again, because that version already runs with the role. The findings are
// Missing and Undecided. The limits are those of Judge. Errors: as Controller, about the later version.
func JudgeUpgrade(policies []Document, from, to string, c Cluster, limits ...Document) ([]Finding, error) {
	by, err := statementsBySid(to, c)
	if err != nil {
		return nil, err
	}
	added, err := karpenter.Permissions(from, to)
	if err != nil {
		return nil, err
	}
	r := reference{Cluster: c, version: to}
	before := map[string]bool{}
	if karpenter.KnowsPermissions(from) {
		for _, one := range (reference{Cluster: c, version: from}).calls() {
			before[fmt.Sprint(one)] = true
		}
	}
	calls := slices.DeleteFunc(r.calls(), func(one call) bool {
		isAdded := slices.ContainsFunc(added, func(p karpenter.Permission) bool { return p.Action == one.Action })
		return !isAdded && (len(before) == 0 || before[fmt.Sprint(one)])
	})
	missing, unknown := r.missing(within(policies, limits), by, calls)
	return append(missing, unknown...), nil
}

// Needed reports whether an installation with these values of Karpenter's chart needs what a finding of JudgeUpgrade is
// about. One that is for every installation does not depend on the values.
func (f Finding) Needed(values map[string]any) bool {
	if f.For == "" {
		return true
	}
	return slices.ContainsFunc(f.Actions, func(action string) bool {
		p, found := karpenter.PermissionOf(action)
		return found && strings.HasPrefix(p.For, f.For) && p.Needed(values)
	})
}

// Statement returns the statement to add as JSON; empty if there is none.
func (f Finding) Statement() string {
	text, err := json.Marshal(f.Add)
	if err != nil || f.Add == nil {
		return "" // a Statement contains only text
	}
	return string(text)
}

// MissingError reports that the role of Karpenter's controller does not allow what a version needs.
type MissingError struct {
	Version, Role string
	Findings      []Finding
}

// Actions returns the missing ones, sorted.
func (e *MissingError) Actions() []string { return actionsOf(e.Findings) }

// Error names the missing actions, and the statements that allow them.
func (e *MissingError) Error() string {
	var statements []string
	for _, f := range e.Findings {
		statements = append(statements, f.Statement())
	}
	return fmt.Sprintf("karpenter %s needs %s, which role %s does not allow: add to its policy %s",
		e.Version, strings.Join(e.Actions(), ", "), e.Role, strings.Join(statements, ", "))
}

// UnreadError reports that it is unknown whether the role of Karpenter's controller allows what a version needs.
type UnreadError struct {
	Version string
	// Actions are those that the version needs.
	Actions []string
	// Reason is why it is unknown.
	Reason string
}

// Error names the actions, why it is unknown, and how to accept that.
func (e *UnreadError) Error() string {
	return fmt.Sprintf("karpenter %s needs %s, and whether the role of Karpenter's controller allows that is unknown: %s; "+
		"let plumbline read the role, or, if the role allows it, accept this in plumbline.yaml: acceptUnread: iam",
		e.Version, strings.Join(e.Actions, ", "), e.Reason)
}

// actionsOf returns the actions of findings, sorted, each once.
func actionsOf(findings []Finding) []string {
	var actions []string
	for _, f := range findings {
		actions = append(actions, f.Actions...)
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}
