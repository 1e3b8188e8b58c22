package iam

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what a Finding is about.
type Kind string

// The kinds of findings.
const (
	// Missing means that the controller needs an action that the policies deny.
	Missing Kind = "Missing"
	// TooBroad means that the policies allow what belongs to others.
	TooBroad Kind = "TooBroad"
	// Undecided means that the policies contain something that plumbline does not evaluate.
	Undecided Kind = "Unknown"
	// Differs means that AWS's own evaluator decides differently (JudgeSimulated).
	Differs Kind = "Differs"
)

// Finding is one result of Judge.
type Finding struct {
	Kind Kind `json:"kind"`
	// Actions are those that are missing, allowed too broadly, not evaluated, or decided differently.
	Actions []string `json:"actions"`
	// Message explains it in one sentence.
	Message string `json:"message"`
	// For is what needs missing actions; empty if every installation does.
	For string `json:"for,omitempty"`
	// Add is the statement that allows what is missing, or that replaces what is too broad.
	Add *Statement `json:"add,omitempty"`
}

// Judge compares the policies of a controller's role with what a version of Karpenter needs in a cluster. Missing is about
// this cluster's resources; TooBroad about resources of other clusters, and about those of no cluster. The findings are in
// the order missing, too broad, unknown. What the role may do is further limited by each of the limits: a permissions
// boundary, or the policy of a session. Errors: as Controller.
func Judge(policies []Document, version string, c Cluster, limits ...Document) ([]Finding, error) {
	by, err := statementsBySid(version, c)
	if err != nil {
		return nil, err
	}
	r := reference{Cluster: c, version: version}
	return r.judge(within(policies, limits), by), nil
}

// judge returns the findings about the requests of the version, in the order missing, too broad, unknown.
func (r reference) judge(decide func(Request) Answer, by map[string]Statement) []Finding {
	missing, unknown := r.missing(decide, by, r.calls())
	broad, more := r.tooBroad(decide, by)
	return slices.Concat(missing, broad, unknown, more)
}

// statementsBySid returns the reference's statements.
func statementsBySid(version string, c Cluster) (map[string]Statement, error) {
	subjects, err := controllerSubjects(version, c)
	if err != nil {
		return nil, err
	}
	by := map[string]Statement{}
	for _, s := range subjects {
		for _, statement := range s.statements {
			by[statement.Sid] = statement
		}
	}
	return by, nil
}

// within returns a function that decides a request by the policies of a role and its limits: each of them has to allow it.
func within(policies, limits []Document) func(Request) Answer {
	return func(request Request) Answer {
		answer := Evaluate(policies, request)
		for _, limit := range limits {
			switch one := Evaluate([]Document{limit}, request); {
			case one.Decision == Denied:
				return one
			case one.Decision == Unknown && answer.Decision == Allowed:
				answer = one
			}
		}
		return answer
	}
}

// missing returns which of some calls are denied, grouped by statement and purpose, and those without a decision.
func (r reference) missing(decide func(Request) Answer, by map[string]Statement, calls []call) (missing, unknown []Finding) {
	for _, one := range calls {
		answer := decide(one.Request)
		switch answer.Decision {
		case Allowed:
		case Unknown:
			unknown = merge(unknown, Finding{
				Kind: Undecided, Actions: []string{one.Action}, For: one.purpose, Message: "not evaluated: " + answer.Reason,
			})
		case Denied:
			add := by[one.sid]
			missing = merge(missing, Finding{Kind: Missing, Actions: []string{one.Action}, For: one.purpose, Add: &add})
		}
	}
	for i := range missing {
		f := &missing[i]
		f.Add.Action = f.Actions
		f.Message = fmt.Sprintf("the policies do not allow %s as Karpenter %s needs it", strings.Join(f.Actions, ", "), r.version)
	}
	return missing, unknown
}

// merge adds a finding, or only its action if there is one with the same purpose, message and statement.
func merge(all []Finding, f Finding) []Finding {
	sid := func(f Finding) string {
		if f.Add == nil {
			return ""
		}
		return f.Add.Sid
	}
	for i := range all {
		if all[i].For == f.For && all[i].Message == f.Message && sid(all[i]) == sid(f) {
			if !slices.Contains(all[i].Actions, f.Actions[0]) {
				all[i].Actions = append(all[i].Actions, f.Actions[0])
			}
			return all
		}
	}
	return append(all, f)
}

// reach is something that the controller must not be able to do.
type reach struct {
	Request
	// message is what the role may do.
	message string
	// sid is the reference's statement that allows no more than necessary.
	sid string
}

// tooBroad returns what is allowed beyond the cluster, each message once, and what is undecided.
func (r reference) tooBroad(decide func(Request) Answer, by map[string]Statement) (broad, unknown []Finding) {
	for _, one := range r.reaches() {
		answer := decide(one.Request)
		add := by[one.sid]
		switch answer.Decision {
		case Denied:
		case Unknown:
			unknown = merge(unknown, Finding{Kind: Undecided, Actions: []string{one.Action}, Message: "not evaluated: " + answer.Reason})
		case Allowed:
			if one.wider(broad) {
				continue
			}
			broad = merge(broad, Finding{Kind: TooBroad, Actions: []string{one.Action}, Message: one.message, Add: &add})
		}
	}
	return broad, unknown
}

// wider reports whether a wider reach of the same action was found: reaches are ordered, the widest first.
func (o reach) wider(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return slices.Contains(f.Actions, o.Action) && f.Message != o.message })
}

// reaches returns what belongs to others. For each action the widest reach comes first: any resource, then those of any
// cluster, then those that are only shared with this cluster.
func (r reference) reaches() []reach {
	other := reference{Cluster: r.Cluster, version: r.version}
	other.Name = otherName(r.Name)
	shared := map[string]string{ownedTagPrefix + r.Name: "shared"}
	var all []reach
	for _, one := range []struct{ action, kind, verb, sid string }{
		{"ec2:TerminateInstances", "instance", "terminate", "Terminate"},
		{"ec2:RebootInstances", "instance", "reboot", "Terminate"},
		{"ec2:CreateTags", "instance", "tag", "TagInstances"},
		{"ec2:DeleteLaunchTemplate", "launch-template", "delete", "Terminate"},
	} {
		things := strings.ReplaceAll(one.kind, "-", " ") + "s"
		request := Request{Action: one.action, Resource: r.resource(one.kind), Region: r.Region}
		if one.action == "ec2:CreateTags" {
			request.RequestTags = map[string]string{nameTag: sample}
		}
		of := func(tags map[string]string, which string) reach {
			request.ResourceTags = tags
			return reach{request, fmt.Sprintf("may %s %s", one.verb, fmt.Sprintf(which, things)), one.sid}
		}
		if !r.needs(one.action) {
			continue // a newer version's action that the policies allow already is judged with that version
		}
		all = append(all,
			of(noTags, "any %s of the account, also those of no cluster"), of(other.tags(), "%s of any cluster"),
			of(shared, "%s that are shared with this cluster and not its own"))
	}
	role := Request{
		Action: "iam:PassRole", Resource: r.global("role/" + sample), Region: globalRegions[r.partition()],
		Keys: map[string]string{"iam:PassedToService": ec2Services[r.partition()][0]},
	}
	all = append(all, reach{role, "may pass any role of the account to EC2", "PassNodeRole"})
	for _, node := range r.nodeRoles() {
		role.Resource, role.Keys = node, map[string]string{"iam:PassedToService": "lambda.amazonaws.com"}
		all = append(all, reach{role, "may pass the role of nodes to any service", "PassNodeRole"})
	}
	for _, action := range []string{"AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile", "DeleteInstanceProfile"} {
		request := Request{
			Action: "iam:" + action, Resource: r.global("instance-profile/" + sample), Region: globalRegions[r.partition()],
			ResourceTags: other.profileTags(),
		}
		all = append(all, reach{request, "may change instance profiles of any cluster", "ChangeProfiles"})
	}
	launch := Request{
		Action: "ec2:RunInstances", Resource: r.resource("instance"), Region: r.Region, RequestTags: other.tags(), ResourceTags: noTags,
	}
	all = append(all, reach{launch, "may launch instances with the tags of any cluster", "LaunchWithTags"})
	parameter := Request{Action: "ssm:GetParameter", Resource: r.arn("ssm", "parameter/"+sample), Region: r.Region}
	all = append(all, reach{parameter, "may read any parameter of the account, including secrets", "ReadImageParameters"})
	for _, action := range []string{"sqs:DeleteMessage", "sqs:ReceiveMessage"} {
		if r.Queue == "" {
			continue
		}
		queue := Request{Action: action, Resource: r.arn("sqs", sample), Region: r.Region}
		all = append(all, reach{queue, "may read and delete messages of any queue", "ReadInterruptions"})
	}
	return all
}

// otherName returns the name of another cluster.
func otherName(name string) string {
	if name == "other" {
		return "another"
	}
	return "other"
}
