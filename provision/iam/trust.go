package iam

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// principals are those of a statement by type, such as Service; "*" is any principal.
type principals map[string]Values

// UnmarshalJSON implements json.Unmarshaler.
func (p *principals) UnmarshalJSON(raw []byte) error {
	var all string
	if json.Unmarshal(raw, &all) == nil {
		*p = principals{all: {anything}}
		return nil
	}
	return json.Unmarshal(raw, (*map[string]Values)(p))
}

// trustStatement is one statement of a trust policy, or of the policy of a resource.
type trustStatement struct {
	Sid                     string
	Effect                  Effect
	Principal, NotPrincipal principals
	Action, NotAction       Values
	Resource, NotResource   Values
	Condition               Condition
}

// trustStatements are those of a trust policy; in JSON, a single one may have no brackets.
type trustStatements []trustStatement

// UnmarshalJSON implements json.Unmarshaler.
func (s *trustStatements) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		raw = fmt.Appendf(nil, "[%s]", raw)
	}
	return strict(raw, (*[]trustStatement)(s))
}

// Assumption is how a principal uses a role, or another resource that has a policy of its own.
type Assumption struct {
	// Kind and Principal are who assumes it: Service and pods.eks.amazonaws.com, Federated and the ARN of the cluster's OIDC
	// provider, or AWS and the ARN of a role or of an account's root user.
	Kind, Principal string
	// Also is another name of the principal, which a Deny may have: the root user of a role's account, or the reverse.
	Also string
	// Actions are those that the policy has to allow, and Resource is the ARN that they are about; a trust policy has none.
	Actions  []string
	Resource string
	// Keys are the condition keys of the requests, and Tags those of the session.
	Keys, Tags map[string]string
}

// PodIdentity is how EKS Pod Identity assumes the role of a ServiceAccount in a cluster with an ARN:
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html and pod-id-abac.html. In every partition the service has
// the same name.
func PodIdentity(clusterARN, account, namespace, serviceAccount, cluster string) Assumption {
	return Assumption{
		Kind: "Service", Principal: "pods.eks.amazonaws.com", Actions: []string{"sts:AssumeRole", "sts:TagSession"},
		Keys: map[string]string{"aws:SourceArn": clusterARN, "aws:SourceAccount": account},
		Tags: map[string]string{
			"eks-cluster-arn": clusterARN, "eks-cluster-name": cluster,
			"kubernetes-namespace": namespace, "kubernetes-service-account": serviceAccount,
		},
	}
}

// WebIdentity is how a ServiceAccount assumes a role with its token (IRSA). The issuer is the cluster's, without https://:
// https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
func WebIdentity(partition, account, issuer, namespace, serviceAccount string) Assumption {
	return Assumption{
		Kind: "Federated", Principal: fmt.Sprintf("arn:%s:iam::%s:oidc-provider/%s", partition, account, issuer),
		Actions: []string{"sts:AssumeRoleWithWebIdentity"},
		Keys: map[string]string{
			issuer + ":sub": "system:serviceaccount:" + namespace + ":" + serviceAccount, issuer + ":aud": "sts.amazonaws.com",
		},
	}
}

// Trusts decides whether a trust policy, or the policy of a queue, allows an Assumption; if it denies that, action is the one that it does not allow.
// Errors: the text is no trust policy.
func Trusts(text string, a Assumption) (answer Answer, action string, err error) {
	var policy struct {
		Version, ID string
		Statement   trustStatements
	}
	if err := strict([]byte(text), &policy); err != nil {
		return Answer{}, "", fmt.Errorf("read a trust policy: %w", err)
	}
	d := Document{Version: policy.Version}
	for _, action := range a.Actions {
		denied, allowed := no, no
		for _, s := range policy.Statement {
			applies := s.applies(d, a, action)
			if s.Effect == Deny {
				denied = denied.or(applies)
			} else {
				allowed = allowed.or(applies)
			}
		}
		switch result := denied.not().and(allowed); result.is {
		case isFalse:
			return Answer{Decision: Denied}, action, nil
		case isUnknown:
			return Answer{Unknown, result.why}, "", nil
		}
	}
	return Answer{Decision: Allowed}, "", nil
}

// applies is true if a statement is about an action of an Assumption.
func (s trustStatement) applies(d Document, a Assumption, action string) truth {
	result, rest := s.holds(d, a)
	statement := Statement{Action: s.Action, NotAction: s.NotAction, Resource: s.Resource, NotResource: s.NotResource, Condition: rest}
	if len(s.Resource)+len(s.NotResource) == 0 {
		statement.Resource = Values{anything}
	}
	return result.and(s.names(a)).and(statement.applies(d, Request{Action: action, Resource: a.Resource, RequestTags: a.Tags}))
}

// holds is true if an Assumption satisfies the conditions on its Keys. The rest are the other conditions.
func (s trustStatement) holds(d Document, a Assumption) (result truth, rest Condition) {
	result, rest = yes, Condition{}
	for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
		for _, key := range slices.Sorted(maps.Keys(s.Condition[operator])) {
			patterns := s.Condition[operator][key]
			text, has := valueOf(a.Keys, key)
			switch {
			case has && (operator == "ArnEquals" || operator == "ArnLike"): // both match in the same way
				result = result.and(anyOf(patterns, func(pattern string) truth { return d.matchesResource(pattern, text) }))
			case has:
				result = result.and(d.compare(operator, key, patterns, value{texts: []string{text}}))
			case operator == "Bool" && strings.EqualFold(key, "aws:SecureTransport"):
				result = result.and(truthOf(slices.Contains(patterns, "true"))) // AWS's services use TLS
			case rest[operator] == nil:
				rest[operator] = map[string]Values{key: patterns}
			default:
				rest[operator][key] = patterns
			}
		}
	}
	return result, rest
}

// valueOf returns the value of a condition key, whose name is not case-sensitive.
func valueOf(keys map[string]string, name string) (text string, has bool) {
	for key, text := range keys {
		if strings.EqualFold(key, name) {
			return text, true
		}
	}
	return "", false
}

// names is true if the statement's principals contain the one that assumes the role. The ID of an account is the same as the
// ARN of its root user: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
func (s trustStatement) names(a Assumption) truth {
	if len(s.NotPrincipal) > 0 {
		return unknown("plumbline does not evaluate NotPrincipal")
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Principal)) {
		named := s.Principal[kind]
		is := func(name string) bool {
			if accountID.MatchString(name) { // the partition does not matter
				return strings.HasSuffix(a.Principal, ":iam::"+name+":root") || s.Effect == Deny && strings.HasSuffix(a.Also, ":iam::"+name+":root")
			}
			return name == anything || name == a.Principal || s.Effect == Deny && name == a.Also
		}
		if kind == anything || kind == a.Kind && slices.ContainsFunc(named, is) {
			return yes
		}
	}
	return no
}

// TrustedBeside returns the principals that Allow statements of a trust policy name beside services of AWS with given names,
// sorted: others who may get the credentials of the role.
func TrustedBeside(text string, services []string) ([]string, error) {
	var policy struct {
		Version, ID string
		Statement   trustStatements
	}
	if err := strict([]byte(text), &policy); err != nil {
		return nil, fmt.Errorf("read a trust policy: %w", err)
	}
	var others []string
	for _, s := range policy.Statement {
		if s.Effect != Allow {
			continue
		}
		if len(s.NotPrincipal) > 0 {
			others = append(others, "all but some (NotPrincipal)")
		}
		for kind, names := range s.Principal {
			for _, name := range names {
				if kind != "Service" || !slices.Contains(services, name) {
					others = append(others, kind+" "+name)
				}
			}
		}
	}
	slices.Sort(others)
	return slices.Compact(others), nil
}

// EC2 is how EC2 assumes the role of instances, by one of its names in a partition.
func EC2(partition string) []Assumption {
	var all []Assumption
	for _, name := range ec2Services[partition] {
		all = append(all, Assumption{Kind: "Service", Principal: name, Actions: []string{"sts:AssumeRole"}})
	}
	return all
}

// EventBridge is how a rule of EventBridge in an account sends events to a queue:
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html
func EventBridge(queueARN, ruleARN, account string) Assumption {
	return Assumption{
		Kind: "Service", Principal: "events.amazonaws.com",
		Actions: []string{"sqs:SendMessage"}, Resource: queueARN,
		Keys: map[string]string{"aws:SourceArn": ruleARN, "aws:SourceAccount": account},
	}
}
