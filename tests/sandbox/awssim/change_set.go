package awssim

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/cloudformation"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// changeSet is what a stack would change.
type changeSet struct {
	id, name, kind string // CREATE, UPDATE or IMPORT
	description    string
	status, reason string
	execution      string
	created        time.Time
	stack          *stack
	desired
	imports map[string]map[string]string // identifiers of existing resources, by logical ID
	changes []stackChange
}

// nothingChanges is CloudFormation's reason for an empty change set.
const nothingChanges = "The submitted information didn't contain changes. Submit different information to create a change set."

func (a *account) changeSetActions() map[string]action {
	return map[string]action{
		"CreateChangeSet":   query(a, a.createChangeSet),
		"DescribeChangeSet": query(a, a.describeChangeSet),
		"ListChangeSets":    query(a, a.listChangeSets),
		"DeleteChangeSet":   query(a, a.deleteChangeSet),
		"ExecuteChangeSet":  query(a, a.executeChangeSet),
	}
}

func (a *account) createChangeSet(r *request, in *cloudformation.CreateChangeSetInput) (*cloudformation.CreateChangeSetOutput, error) {
	set := &changeSet{
		name: aws.StringValue(in.ChangeSetName), kind: cmp.Or(aws.StringValue(in.ChangeSetType), "UPDATE"),
		description: aws.StringValue(in.Description),
		status:      "CREATE_PENDING", execution: "UNAVAILABLE", created: a.now, imports: map[string]map[string]string{},
	}
	st, err := a.stackFor(set, aws.StringValue(in.StackName))
	if err != nil {
		return nil, err
	}
	if set.desired, err = a.desiredBy(st, in); err != nil {
		return nil, err
	}
	for _, one := range in.ResourcesToImport {
		set.imports[aws.StringValue(one.LogicalResourceId)] = aws.StringValueMap(one.ResourceIdentifier)
	}
	if err := set.checkImports(st); err != nil {
		return nil, err
	}
	if st == nil {
		st = a.newStack(aws.StringValue(in.StackName))
		st.token = aws.StringValue(in.ClientToken)
		a.enter(st, stackReview, byUser)
	}
	set.id = a.arn("cloudformation", a.options.Region, "changeSet/"+set.name+"/"+newRequestID())
	set.stack, st.changeSets[set.name] = st, set
	a.begin(r, func(o *operation) { o.plan(set) })
	return &cloudformation.CreateChangeSetOutput{Id: aws.String(set.id), StackId: aws.String(st.id)}, nil
}

// stackFor returns the stack that a new change set is for; nil if it creates one.
func (a *account) stackFor(set *changeSet, name string) (*stack, error) {
	st, err := a.findStack(&name)
	switch {
	case err != nil && set.kind == "UPDATE":
		return nil, invalidStack("Stack [%s] does not exist", name)
	case err != nil:
		return nil, nil //nolint:nilerr // the change set creates it
	case st.changeSets[set.name] != nil:
		return nil, wire.Errorf("AlreadyExistsException", "ChangeSet %s already exists", set.name)
	case set.kind == "CREATE" && st.status != stackReview:
		return nil, invalidStack("Stack [%s] already exists and cannot be created again with the changeSet [%s].", name, set.name)
	case st.status == stackReview && set.kind == "UPDATE", st.status != stackReview && !st.changeable():
		return nil, invalidStack("Stack:%s is in %s state and can not be updated.", st.id, st.status)
	}
	return st, nil
}

// changeable reports whether a stack can be updated.
func (st *stack) changeable() bool {
	return slices.Contains([]string{
		"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE", "IMPORT_ROLLBACK_COMPLETE",
	}, st.status)
}

// desiredBy reads what a change set wants from its request, and checks it.
func (a *account) desiredBy(st *stack, in *cloudformation.CreateChangeSetInput) (desired, error) {
	if aws.StringValue(in.RoleARN) != "" || aws.StringValue(in.OnStackFailure) != "" || aws.BoolValue(in.ImportExistingResources) {
		return desired{}, invalidStack("The simulator supports none of RoleARN, OnStackFailure and ImportExistingResources.")
	}
	var before desired
	if st != nil {
		before = st.desired
	}
	d := desired{given: map[string]string{}, tags: maps.Clone(before.tags), capabilities: aws.StringValueSlice(in.Capabilities)}
	var err error
	if d.template = before.template; !aws.BoolValue(in.UsePreviousTemplate) || d.template == nil {
		if d.template, err = parseTemplate(in.TemplateBody, in.TemplateURL); err != nil {
			return d, err
		}
	}
	for _, p := range in.Parameters {
		value := aws.StringValue(p.ParameterValue)
		if aws.BoolValue(p.UsePreviousValue) {
			value = before.given[aws.StringValue(p.ParameterKey)]
		}
		d.given[aws.StringValue(p.ParameterKey)] = value
	}
	if in.Tags != nil {
		d.tags = map[string]string{}
	}
	for _, tag := range in.Tags {
		d.tags[aws.StringValue(tag.Key)] = aws.StringValue(tag.Value)
	}
	return d, d.check()
}

// check checks that all parameters have values, and that the caller has acknowledged what the template may create.
func (d desired) check() error {
	if _, err := d.template.Values(d.given); err != nil {
		return invalidStack("%v", err)
	}
	required := requiredCapability(d.template)
	named := slices.Contains(d.capabilities, cloudformation.CapabilityCapabilityNamedIam)
	if required != "" && !named && !slices.Contains(d.capabilities, required) {
		return wire.Errorf("InsufficientCapabilitiesException", "Requires capabilities : [%s]", required)
	}
	return nil
}

// checkImports checks what CloudFormation requires of an import: it adds only resources that exist, and each has a
// DeletionPolicy.
func (set *changeSet) checkImports(st *stack) error {
	if set.kind != "IMPORT" {
		if len(set.imports) > 0 {
			return invalidStack("ResourcesToImport can only be specified in a change set of type IMPORT")
		}
		return nil
	}
	if len(set.imports) == 0 {
		return invalidStack("ResourcesToImport must be specified for a change set of type IMPORT")
	}
	var existing map[string]*stackResource
	var outputs map[string]template.Output
	if st != nil {
		existing = st.resources
	}
	if st != nil && st.template != nil {
		outputs = st.template.Outputs
	}
	if !equalOutputs(outputs, set.template.Outputs) {
		return invalidStack("As part of the import operation, you cannot modify or add [Outputs]")
	}
	return set.checkImported(existing)
}

// checkImported checks that a template adds nothing to the existing resources but imports, and that each is protected.
func (set *changeSet) checkImported(existing map[string]*stackResource) error {
	var missing, unprotected []string
	for _, id := range set.template.Names() {
		_, imported := set.imports[id]
		switch {
		case !imported && existing[id] == nil:
			missing = append(missing, id)
		case imported && existing[id] != nil:
			return invalidStack("Resources [%s] passed in ResourceToImport are already in a stack and cannot be imported.", id)
		case imported && set.template.Resources[id].DeletionPolicy == "":
			unprotected = append(unprotected, id)
		}
	}
	switch {
	case len(missing) > 0:
		return invalidStack("Resources [%s] is missing from ResourceToImport list", strings.Join(missing, ", "))
	case len(unprotected) > 0:
		return invalidStack("Resources to import [%s] must have DeletionPolicy attribute specified in the template.",
			strings.Join(unprotected, ", "))
	}
	return nil
}

func equalOutputs(x, y map[string]template.Output) bool {
	return maps.EqualFunc(x, y, func(one, other template.Output) bool { return jsonText(one) == jsonText(other) })
}

// findChangeSet returns a change set by its ID, or by its name and its stack.
func (a *account) findChangeSet(name, stackName *string) (*changeSet, error) {
	asked := aws.StringValue(name)
	for _, st := range a.stacks {
		for _, set := range st.changeSets {
			if set.id == asked {
				return set, nil
			}
		}
	}
	if st, err := a.findStack(stackName); err == nil && st.changeSets[asked] != nil {
		return st.changeSets[asked], nil
	}
	return nil, wire.Errorf("ChangeSetNotFound", "ChangeSet [%s] does not exist", asked).WithStatus(http.StatusNotFound)
}

func (a *account) describeChangeSet(
	_ *request, in *cloudformation.DescribeChangeSetInput,
) (*cloudformation.DescribeChangeSetOutput, error) {
	set, err := a.findChangeSet(in.ChangeSetName, in.StackName)
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeChangeSetOutput{
		ChangeSetId: aws.String(set.id), ChangeSetName: aws.String(set.name), StackId: aws.String(set.stack.id),
		StackName:   aws.String(set.stack.name),
		Description: optional(set.description), Status: aws.String(set.status), StatusReason: optional(set.reason),
		ExecutionStatus: aws.String(set.execution),
		CreationTime:    aws.Time(set.created), Parameters: set.parameters(), Tags: stackTags(set.tags),
		Capabilities: aws.StringSlice(set.capabilities),
		Changes:      []*cloudformation.Change{}, IncludeNestedStacks: aws.Bool(false),
	}
	for _, c := range set.changes {
		out.Changes = append(out.Changes, &cloudformation.Change{
			Type:           aws.String("Resource"),
			ResourceChange: c.describe(aws.BoolValue(in.IncludePropertyValues)),
		})
	}
	return out, nil
}

func (a *account) listChangeSets(_ *request, in *cloudformation.ListChangeSetsInput) (*cloudformation.ListChangeSetsOutput, error) {
	st, err := a.findStack(in.StackName)
	if err != nil {
		return nil, err
	}
	out := &cloudformation.ListChangeSetsOutput{Summaries: []*cloudformation.ChangeSetSummary{}}
	for _, name := range slices.Sorted(maps.Keys(st.changeSets)) {
		set := st.changeSets[name]
		out.Summaries = append(out.Summaries, &cloudformation.ChangeSetSummary{
			ChangeSetId: aws.String(set.id), ChangeSetName: aws.String(name), StackId: aws.String(st.id), StackName: aws.String(st.name),
			Status: aws.String(set.status), StatusReason: optional(set.reason), ExecutionStatus: aws.String(set.execution),
			CreationTime: aws.Time(set.created), Description: optional(set.description),
		})
	}
	return out, nil
}

// deleteChangeSet deletes one, if it exists. The stack that it has created stays in review.
func (a *account) deleteChangeSet(_ *request, in *cloudformation.DeleteChangeSetInput) (*cloudformation.DeleteChangeSetOutput, error) {
	set, _ := a.findChangeSet(in.ChangeSetName, in.StackName)
	if set == nil {
		if in.StackName == nil {
			return &cloudformation.DeleteChangeSetOutput{}, nil
		}
		_, err := a.findStack(in.StackName)
		return &cloudformation.DeleteChangeSetOutput{}, err
	}
	if set.execution == "EXECUTE_IN_PROGRESS" || strings.HasPrefix(set.status, "CREATE_") && set.status != "CREATE_COMPLETE" {
		return nil, wire.Errorf("InvalidChangeSetStatus", "ChangeSet [%s] cannot be deleted in its current status of [%s]", set.id,
			cmp.Or(set.status, set.execution))
	}
	delete(set.stack.changeSets, set.name)
	return &cloudformation.DeleteChangeSetOutput{}, nil
}

func (a *account) executeChangeSet(r *request, in *cloudformation.ExecuteChangeSetInput) (*cloudformation.ExecuteChangeSetOutput, error) {
	set, err := a.findChangeSet(in.ChangeSetName, in.StackName)
	if err != nil {
		return nil, err
	}
	st := set.stack
	switch {
	case aws.BoolValue(in.DisableRollback):
		return nil, invalidStack("The simulator does not support DisableRollback.")
	case set.execution != "AVAILABLE":
		return nil, wire.Errorf("InvalidChangeSetStatus", "ChangeSet [%s] cannot be executed in its current status of [%s]", set.id,
			set.blocking())
	case st.status != stackReview && !st.changeable():
		return nil, invalidStack("Stack:%s is in %s state and can not be updated.", st.id, st.status)
	}
	for name, other := range st.changeSets {
		if other != set {
			delete(st.changeSets, name)
		}
	}
	set.execution = "EXECUTE_IN_PROGRESS"
	st.token, st.executed, st.failed = aws.StringValue(in.ClientRequestToken), set.id, failedUpdate{}
	if st.status != stackReview {
		st.updated = a.now
	}
	a.enter(st, set.kind+inProgress, byUser)
	a.begin(r, func(o *operation) { o.execute(set) })
	return &cloudformation.ExecuteChangeSetOutput{}, nil
}

// blocking returns the status that forbids an execution.
func (set *changeSet) blocking() string {
	if set.status != "CREATE_COMPLETE" {
		return set.status
	}
	return set.execution
}

// jsonText returns a value as JSON; empty if it has none.
func jsonText(value any) string {
	content, err := json.Marshal(value)
	if err != nil || string(content) == "null" {
		return ""
	}
	return string(content)
}
