package awssim

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// rule is an EventBridge rule on the default bus. Rules are stored and listed; they do not route events yet.
type rule struct {
	name, pattern, state string
	description          string
	targets              map[string]json.RawMessage
	tags                 map[string]string
}

// ruleTag is a tag as EventBridge writes it.
type ruleTag struct{ Key, Value string }

func (a *account) eventBridgeActions() map[string]action {
	return map[string]action{
		"PutRule":               document(a.putRule),
		"DescribeRule":          document(a.describeRule),
		"ListRules":             document(a.listRules),
		"ListRuleNamesByTarget": document(a.listRuleNamesByTarget),
		"DeleteRule":            document(a.deleteRule),
		"PutTargets":            document(a.putTargets),
		"ListTargetsByRule":     document(a.listTargetsByRule),
		"RemoveTargets":         document(a.removeTargets),
		"TagResource":           document(a.tagRule),
		"UntagResource":         document(a.untagRule),
		"ListTagsForResource":   document(a.listRuleTags),
	}
}

type ruleInput struct {
	Name, Rule, NamePrefix, EventPattern, State, TargetArn string
	Description                                            string
	ResourceARN                                            string
	Tags                                                   []ruleTag
	TagKeys                                                []string
	Targets                                                []json.RawMessage
	IDs                                                    []string `json:"Ids"`
	Limit                                                  *int64
	NextToken                                              *string
}

type ruleDocument struct {
	Name, Arn, EventPattern, State, EventBusName string
	Description                                  string `json:",omitempty"`
}

type listRulesOutput struct {
	Rules     []ruleDocument
	NextToken *string `json:",omitempty"`
}

type targetsOutput struct {
	Targets          []json.RawMessage
	FailedEntryCount int
	FailedEntries    []struct{}
}

func (a *account) findRule(name string) (*rule, error) {
	if r, ok := a.rules[name]; ok {
		return r, nil
	}
	return nil, wire.Errorf("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

func (a *account) putRule(_ *request, in *ruleInput) (*map[string]string, error) {
	r, ok := a.rules[in.Name]
	if !ok {
		r = &rule{name: in.Name, targets: map[string]json.RawMessage{}, tags: map[string]string{}}
		for _, tag := range in.Tags {
			r.tags[tag.Key] = tag.Value
		}
		a.rules[in.Name] = r
	}
	r.description = in.Description
	r.pattern, r.state = in.EventPattern, cmp.Or(in.State, "ENABLED")
	return &map[string]string{"RuleArn": a.describe(r).Arn}, nil
}

func (a *account) describeRule(_ *request, in *ruleInput) (*ruleDocument, error) {
	r, err := a.findRule(in.Name)
	if err != nil {
		return nil, err
	}
	d := a.describe(r)
	return &d, nil
}

// SetRule enables a rule, or disables it.
func (s *Simulator) SetRule(name string, enabled bool) error {
	var err error
	s.locked(func(a *account) {
		var r *rule
		if r, err = a.findRule(name); err != nil {
			return
		}
		if r.state = "DISABLED"; enabled {
			r.state = "ENABLED"
		}
	})
	return err
}

func (a *account) listRules(_ *request, in *ruleInput) (*listRulesOutput, error) {
	var selected []*rule
	for _, r := range a.rules {
		if wildcard(in.NamePrefix+"*", r.name) {
			selected = append(selected, r)
		}
	}
	selected, next, err := page(selected, func(r *rule) string { return r.name }, in.Limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &listRulesOutput{Rules: []ruleDocument{}, NextToken: next}
	for _, r := range selected {
		out.Rules = append(out.Rules, a.describe(r))
	}
	return out, nil
}

func (a *account) listRuleNamesByTarget(_ *request, in *ruleInput) (*map[string][]string, error) {
	names := []string{}
	for name, r := range a.rules {
		for _, target := range r.targets {
			var of struct{ Arn string }
			if json.Unmarshal(target, &of) == nil && of.Arn == in.TargetArn {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return &map[string][]string{"RuleNames": slices.Compact(names)}, nil
}

func (a *account) deleteRule(_ *request, in *ruleInput) (*struct{}, error) {
	if r, ok := a.rules[in.Name]; ok && len(r.targets) > 0 {
		return nil, wire.Errorf("ValidationException", "Rule can't be deleted since it has targets.")
	}
	delete(a.rules, in.Name)
	return &struct{}{}, nil
}

func (a *account) putTargets(_ *request, in *ruleInput) (*targetsOutput, error) {
	r, err := a.findRule(in.Rule)
	if err != nil {
		return nil, err
	}
	for _, target := range in.Targets {
		var id struct {
			ID string `json:"Id"`
		}
		if err := json.Unmarshal(target, &id); err != nil || id.ID == "" {
			return nil, wire.Errorf("ValidationException", "a target of rule %s has no Id", r.name)
		}
		r.targets[id.ID] = target
	}
	return &targetsOutput{}, nil
}

func (a *account) listTargetsByRule(_ *request, in *ruleInput) (*targetsOutput, error) {
	r, err := a.findRule(in.Rule)
	if err != nil {
		return nil, err
	}
	out := &targetsOutput{Targets: []json.RawMessage{}}
	for _, target := range r.targets {
		out.Targets = append(out.Targets, target)
	}
	slices.SortFunc(out.Targets, func(x, y json.RawMessage) int { return cmp.Compare(string(x), string(y)) })
	return out, nil
}

func (a *account) removeTargets(_ *request, in *ruleInput) (*targetsOutput, error) {
	r, err := a.findRule(in.Rule)
	if err != nil {
		return nil, err
	}
	for _, id := range in.IDs {
		delete(r.targets, id)
	}
	return &targetsOutput{}, nil
}

func (a *account) findRuleByARN(arn string) (*rule, error) {
	return a.findRule(arn[strings.LastIndex(arn, "/")+1:])
}

func (a *account) tagRule(_ *request, in *ruleInput) (*struct{}, error) {
	r, err := a.findRuleByARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, tag := range in.Tags {
		r.tags[tag.Key] = tag.Value
	}
	return &struct{}{}, nil
}

func (a *account) untagRule(_ *request, in *ruleInput) (*struct{}, error) {
	r, err := a.findRuleByARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(r.tags, key)
	}
	return &struct{}{}, nil
}

func (a *account) listRuleTags(_ *request, in *ruleInput) (*map[string][]ruleTag, error) {
	r, err := a.findRuleByARN(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	tags := []ruleTag{}
	for _, key := range slices.Sorted(maps.Keys(r.tags)) {
		tags = append(tags, ruleTag{key, r.tags[key]})
	}
	return &map[string][]ruleTag{"Tags": tags}, nil
}

func (a *account) describe(r *rule) ruleDocument {
	return ruleDocument{
		Name: r.name, EventPattern: r.pattern, State: r.state, EventBusName: "default", Description: r.description,
		Arn: a.arn("events", a.options.Region, "rule/"+r.name),
	}
}
