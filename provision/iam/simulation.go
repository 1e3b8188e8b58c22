package iam

import (
	"fmt"
	"strings"
)

// simulate is the action of AWS's own evaluator.
const simulate = "iam:SimulatePrincipalPolicy"

// Simulation is what AWS's own evaluator, iam:SimulatePrincipalPolicy, answers about a role.
type Simulation struct {
	// Requests are those that AWS was queried about, and Answers are its answers, in the same order.
	Requests []Request
	Answers  []Simulated
	// Limits are those that AWS evaluates in addition to the role's policies: its permissions boundary. AWS does not evaluate
	// the policy of a session.
	Limits []Document
}

// Simulated is AWS's answer to a Request.
type Simulated struct {
	Answer

	// Without is a condition key that the role's policies name and whose value in a real request is unknown: AWS has decided as
	// if the request did not have it. Empty if there is none. A decision that plumbline makes does not depend on such a key.
	Without string
}

// Requests returns what Judge evaluates for a version in a cluster, each request once. Errors: as Controller.
func Requests(version string, c Cluster) ([]Request, error) {
	if _, err := controllerSubjects(version, c); err != nil {
		return nil, err
	}
	r := reference{Cluster: c, version: version}
	var all []Request
	seen := map[string]bool{}
	add := func(one Request) {
		if key := one.identity(); !seen[key] {
			seen[key], all = true, append(all, one)
		}
	}
	for _, one := range r.calls() {
		add(one.Request)
	}
	for _, one := range r.reaches() {
		add(one.Request)
	}
	return all, nil
}

// identity is the same text for equal requests.
func (r Request) identity() string { return fmt.Sprint(r) }

// JudgeSimulated is Judge, and compares its evaluation with AWS's own: where both decide, and differently, it adds a finding
// of kind Differs; where only AWS decides, the finding of kind Undecided contains AWS's answer.
func JudgeSimulated(policies []Document, version string, c Cluster, s Simulation, limits ...Document) ([]Finding, error) {
	by, err := statementsBySid(version, c)
	if err != nil {
		return nil, err
	}
	r := reference{Cluster: c, version: version}
	all := r.judge(s.beside(within(policies, limits)), by)
	return append(all, s.differences(within(policies, s.Limits))...), nil
}

// beside adds AWS's answer to the reason of what is not evaluated.
func (s Simulation) beside(decide func(Request) Answer) func(Request) Answer {
	answers := map[string]Simulated{}
	for i, one := range s.Requests {
		answers[one.identity()] = s.Answers[i]
	}
	return func(request Request) Answer {
		answer := decide(request)
		by := answers[request.identity()]
		if answer.Decision == Unknown && by.Decision != "" && by.Decision != Unknown && by.Without == "" {
			answer.Reason += fmt.Sprintf("; %s answers: %s", simulate, strings.ToLower(string(by.Decision)))
		}
		return answer
	}
}

// differences returns the requests that AWS decides differently, those with the same decisions in one finding.
func (s Simulation) differences(decide func(Request) Answer) []Finding {
	var found []Finding
	for i, request := range s.Requests {
		mine, aws := decide(request).Decision, s.Answers[i].Decision
		if mine == aws || mine == Unknown || aws == Unknown {
			continue
		}
		message := fmt.Sprintf("by plumbline's evaluation the policies decide %s, and by %s %s", mine, simulate, aws)
		found = merge(found, Finding{Kind: Differs, Actions: []string{request.Action}, Message: message})
	}
	return found
}

// Unknown returns the reasons of AWS's answers that are unknown, each once, and how many answers these are.
func (s Simulation) Unknown() (reasons []string, answers int) {
	seen := map[string]bool{}
	for _, one := range s.Answers {
		if one.Decision != Unknown {
			continue
		}
		if answers++; !seen[one.Reason] {
			seen[one.Reason], reasons = true, append(reasons, one.Reason)
		}
	}
	return reasons, answers
}

// Simulated returns AWS's answer to the request from a result of iam:SimulatePrincipalPolicy: its decision, whether a service
// control policy denies it, and the condition keys that policies name and that the query did not have.
//
// What a service control policy denies there is unknown, and no denial: AWS's evaluator does not evaluate their conditions as
// a real request does (https://github.com/aws/aws-sdk/issues/102). AWS names the missing keys of all policies, also those of
// statements about other actions. One that the request does not have is absent in a real one, too.
func (r Request) Simulated(allowed, byOrganization bool, missing []string) Simulated {
	if byOrganization && !allowed {
		return Simulated{Answer: Answer{Unknown, "a service control policy denies it, whose conditions it does not evaluate as a real request does"}}
	}
	answer := Simulated{Answer: Answer{Decision: Denied}}
	if allowed {
		answer.Decision = Allowed
	}
	for _, key := range missing {
		if _, known := r.effective().key(key); !known {
			answer.Without = key
		}
	}
	return answer
}

// effective returns the request as IAM sees it: an action without a resource type is about anything.
func (r Request) effective() Request {
	if resourceTypes[r.Action] == "" {
		r.Resource, r.ResourceTags = anything, noTags
	}
	return r
}

// Context returns the ARN that AWS's evaluator needs for the request, and the condition keys with their values. A key that the
// request does not have, or whose value is unknown, is absent.
func (r Request) Context() (resource string, keys map[string][]string) {
	r = r.effective()
	service, _, _ := strings.Cut(r.Action, ":")
	keys = map[string][]string{}
	if r.Region != "" {
		keys["aws:RequestedRegion"] = []string{r.Region}
	}
	for tag, value := range r.RequestTags {
		keys[ofRequest+tag] = []string{value}
	}
	if tags := r.tagKeys(); len(tags) > 0 {
		keys["aws:TagKeys"] = tags
	}
	for tag, value := range r.ResourceTags {
		keys[ofResource+tag] = []string{value}
		keys[service+":ResourceTag/"+tag] = []string{value}
	}
	for key, value := range r.Keys {
		keys[key] = []string{value}
	}
	return r.Resource, keys
}
