package awssim

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/cloudformation"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
)

// knownAfterApply is what change sets show for the value of a resource that does not exist yet.
const knownAfterApply = "{{changeSet:KNOWN_AFTER_APPLY}}"

// stackChange is a change of one resource: Add, Modify, Remove or Import.
type stackChange struct {
	action                      string
	logicalID, kind, physicalID string
	replacement                 string // True, False or Conditional; only of Modify
	before, after               map[string]any
	properties                  []changedProperty
	tags, policy                bool // the stack's tags or a deletion policy change
}

// changedProperty is a property whose value changes. Recreation is Never, Always or Conditionally.
type changedProperty struct {
	name, recreation string
	dynamic          bool // its value depends on a resource that does not exist yet
}

// scope returns what the functions of a template refer to: resources of the stack for which known is true.
func (a *account) scope(st *stack, d desired, known func(r *stackResource) bool) (template.Scope, error) {
	values, err := d.template.Values(d.given)
	if err != nil {
		return template.Scope{}, err
	}
	region := a.options.Region
	maps.Copy(values, map[string]any{
		"AWS::Region": region, "AWS::AccountId": a.options.Account, "AWS::Partition": partition(region), "AWS::URLSuffix": domain(region),
		"AWS::StackName": st.name, "AWS::StackId": st.id, "AWS::NotificationARNs": []any{},
	})
	return template.Scope{
		Template: d.template, Parameters: values,
		Resource: func(id string) (string, error) {
			if r, ok := st.resources[id]; ok && known(r) {
				return r.physicalID, nil
			}
			return knownAfterApply, nil
		},
		Attribute: func(id, attribute string) (string, error) {
			if !slices.Contains(resourceKinds[d.template.Resources[id].Type].attributes, attribute) {
				return "", template.Error("Template error: resource " + id + " does not support attribute type " + attribute + " in Fn::GetAtt")
			}
			if r, ok := st.resources[id]; ok && known(r) {
				return r.attributes[attribute], nil
			}
			return knownAfterApply, nil
		},
	}, nil
}

// propertiesOf returns the resolved properties of a resource; false if its condition does not hold.
func propertiesOf(in template.Scope, id string) (map[string]any, bool, error) {
	declared := in.Template.Resources[id]
	holds, err := in.Holds(declared.Condition)
	if err != nil || !holds {
		return nil, false, err
	}
	resolved, err := in.Resolve(declared.Properties)
	if err != nil {
		return nil, false, err
	}
	properties, _ := resolved.(map[string]any)
	return properties, true, nil
}

// exists reports whether a resource of a stack was created and not deleted.
func (r *stackResource) exists() bool {
	return r != nil && r.physicalID != "" && r.status != stackDeleted && r.status != deleteSkipped
}

// changesOf returns what a change set would change, in the order of the changes.
func (a *account) changesOf(set *changeSet) ([]stackChange, error) {
	st := set.stack
	replaced := map[*stackResource]bool{}
	in, err := a.scope(st, set.desired, func(r *stackResource) bool { return r.exists() && !replaced[r] })
	if err != nil {
		return nil, err
	}
	order, err := set.template.Order()
	if err != nil {
		return nil, err
	}
	var changes []stackChange
	kept := map[string]bool{}
	for _, id := range order {
		after, holds, err := propertiesOf(in, id)
		if err != nil {
			return nil, err
		}
		if !holds {
			continue
		}
		kept[id] = true
		c := set.changeOf(st.resources[id], id, after)
		if c.replacement == cloudformation.ReplacementTrue {
			replaced[st.resources[id]] = true
		}
		if c.action != "" {
			changes = append(changes, c)
		}
	}
	for _, r := range st.listed() {
		if !kept[r.logicalID] && r.exists() {
			changes = append(changes, stackChange{
				action: "Remove", logicalID: r.logicalID, kind: r.kind, physicalID: r.physicalID,
				before: r.properties,
			})
		}
	}
	return changes, nil
}

// changeOf returns the change of one resource; without an action if it does not change.
func (set *changeSet) changeOf(r *stackResource, id string, after map[string]any) stackChange {
	declared := set.template.Resources[id]
	c := stackChange{logicalID: id, kind: declared.Type, after: after}
	if !r.exists() {
		if c.action = "Add"; set.imports[id] != nil {
			c.action, c.physicalID = "Import", resourceKinds[declared.Type].physicalID(set.imports[id])
		}
		return c
	}
	c.physicalID, c.before, c.replacement = r.physicalID, r.properties, cloudformation.ReplacementFalse
	kind := resourceKinds[declared.Type]
	c.properties = changedProperties(kind, r.properties, after)
	for _, p := range c.properties {
		switch {
		case p.recreation == cloudformation.RequiresRecreationAlways:
			c.replacement = cloudformation.ReplacementTrue
		case p.recreation != cloudformation.RequiresRecreationNever && c.replacement == cloudformation.ReplacementFalse:
			c.replacement = cloudformation.ReplacementConditional
		}
	}
	if r.kind != declared.Type {
		c.replacement = cloudformation.ReplacementTrue
	}
	c.tags = kind.taggable && !maps.Equal(r.tags, set.tags)
	c.policy = r.declared.DeletionPolicy != declared.DeletionPolicy || r.declared.UpdateReplacePolicy != declared.UpdateReplacePolicy
	if len(c.properties) > 0 || c.tags || c.policy || r.kind != declared.Type {
		c.action = "Modify"
	}
	return c
}

// changedProperties compares the properties of a resource at their first level.
func changedProperties(kind resourceKind, before, after map[string]any) []changedProperty {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	var changed []changedProperty
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if template.Equal(before[name], after[name]) {
			continue
		}
		p := changedProperty{name: name, recreation: cloudformation.RequiresRecreationNever, dynamic: isUnknown(after[name])}
		if slices.Contains(kind.createOnly, name) {
			if p.recreation = cloudformation.RequiresRecreationAlways; p.dynamic {
				p.recreation = cloudformation.RequiresRecreationConditionally
			}
		}
		changed = append(changed, p)
	}
	return changed
}

// isUnknown reports whether a value contains one of a resource that does not exist yet.
func isUnknown(value any) bool {
	switch v := value.(type) {
	case string:
		return wildcard("*"+knownAfterApply+"*", v)
	case []any:
		return slices.ContainsFunc(v, isUnknown)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), isUnknown)
	}
	return false
}

func (c stackChange) describe(withValues bool) *cloudformation.ResourceChange {
	d := &cloudformation.ResourceChange{
		Action: aws.String(c.action), LogicalResourceId: aws.String(c.logicalID), PhysicalResourceId: optional(c.physicalID),
		ResourceType: aws.String(c.kind),
		Replacement:  optional(c.replacement), Scope: []*string{}, Details: []*cloudformation.ResourceChangeDetail{},
	}
	if withValues {
		d.BeforeContext, d.AfterContext = contextOf(c.before), contextOf(c.after)
	}
	for _, p := range c.properties {
		evaluation := cloudformation.EvaluationTypeStatic
		if p.dynamic {
			evaluation = cloudformation.EvaluationTypeDynamic
		}
		target := &cloudformation.ResourceTargetDefinition{
			Attribute: aws.String(cloudformation.ResourceAttributeProperties), Name: aws.String(p.name),
			RequiresRecreation: aws.String(p.recreation),
		}
		if withValues {
			target.Path = aws.String("/Properties/" + p.name)
			target.BeforeValue, target.AfterValue = valueText(c.before[p.name]), valueText(c.after[p.name])
		}
		d.Details = append(d.Details, &cloudformation.ResourceChangeDetail{
			Target: target, Evaluation: aws.String(evaluation), ChangeSource: aws.String(cloudformation.ChangeSourceDirectModification),
		})
	}
	if len(c.properties) > 0 {
		d.Scope = append(d.Scope, aws.String(cloudformation.ResourceAttributeProperties))
	}
	if c.tags {
		d.Scope = append(d.Scope, aws.String(cloudformation.ResourceAttributeTags))
	}
	if c.policy {
		d.Scope = append(d.Scope, aws.String(cloudformation.ResourceAttributeDeletionPolicy))
	}
	return d
}

// contextOf returns the properties of a resource as change sets show them.
func contextOf(properties map[string]any) *string {
	if properties == nil {
		return nil
	}
	return aws.String(jsonText(map[string]any{"Properties": properties}))
}

// valueText returns a value as change sets show it: a scalar as it is, another as JSON.
func valueText(value any) *string {
	switch value.(type) {
	case nil:
		return nil
	case []any, map[string]any:
		return aws.String(jsonText(value))
	}
	return aws.String(template.Text(value))
}
