package awssim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
)

// resourceKind is a type of resource that CloudFormation knows, by its schema:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-template-resource-type-ref.html
type resourceKind struct {
	required, optional []string // properties
	createOnly         []string // properties whose change replaces the resource
	name               string   // the property with a name that the user chooses
	attributes         []string // of Fn::GetAtt
	identifier         []string // of an import, in the order of the physical ID
	taggable           bool     // gets the stack's tags
	systemTags         bool     // gets CloudFormation's own tags, too

	create, update, delete func(*work) error
	// read returns the physical ID and the attributes of an existing resource.
	read func(*work, map[string]string) (physicalID string, attributes map[string]string, err error)
}

// resourceKinds are the types that the simulator knows.
var resourceKinds = map[string]resourceKind{
	"AWS::IAM::Role":                   roleKind,
	"AWS::IAM::ManagedPolicy":          managedPolicyKind,
	"AWS::IAM::InstanceProfile":        instanceProfileKind,
	oidcType:                           oidcKind,
	"AWS::SQS::Queue":                  queueKind,
	"AWS::SQS::QueuePolicy":            queuePolicyKind,
	"AWS::Events::Rule":                ruleKind,
	"AWS::EKS::AccessEntry":            accessEntryKind,
	"AWS::EKS::PodIdentityAssociation": associationKind,
	"AWS::EKS::Addon":                  addonKind,
}

// physicalID returns the physical ID that an identifier of an import names.
func (k resourceKind) physicalID(identifier map[string]string) string {
	parts := make([]string, len(k.identifier))
	for i, name := range k.identifier {
		parts[i] = identifier[name]
	}
	return strings.Join(parts, "|")
}

// check validates properties against the schema.
func (k resourceKind) check(logicalID string, properties map[string]any) error {
	failed := func(what, key, how string) error {
		return template.Error(fmt.Sprintf("Properties validation failed for resource %s with message:\n[#: %s key [%s] is %s]", logicalID,
			what, key, how))
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(k.required, name) && !slices.Contains(k.optional, name) {
			return failed("extraneous", name, "not permitted")
		}
	}
	for _, name := range k.required {
		if properties[name] == nil {
			return failed("required", name, "not found")
		}
	}
	return nil
}

// work is one change of one resource of a stack. A deletion has nothing after it, a creation nothing before it.
type work struct {
	*operation
	stack                 *stack
	of                    *stackResource
	replacement           *stackResource // the resource that replaces it; nil if none does
	kind                  resourceKind
	before, after         map[string]any // properties
	beforeTags, afterTags map[string]string
}

func (w *work) create() error {
	if err := w.kind.check(w.of.logicalID, w.after); err != nil {
		return err
	}
	return w.kind.create(w)
}

func (w *work) update() error {
	if err := w.kind.check(w.of.logicalID, w.after); err != nil {
		return err
	}
	return w.kind.update(w)
}

// made records the physical ID of what was created, so that a rollback deletes it, whatever fails later.
func (w *work) made(physicalID string, attributes map[string]string) {
	w.locked(func(a *account) {
		w.of.physicalID, w.of.attributes = physicalID, attributes
		verb, _, _ := strings.Cut(w.of.status, "_")
		if verb == "" {
			verb = "UPDATE"
		}
		a.mark(w.stack, w.of, verb+inProgress, "Resource creation Initiated")
	})
}

// end records the result of the work.
func (w *work) end(verb, note string, err error) error {
	w.locked(func(a *account) {
		if err != nil {
			a.mark(w.stack, w.of, verb+hasFailed, reasonOf(err))
			return
		}
		if w.after != nil {
			w.of.properties, w.of.tags = w.after, w.afterTags
		}
		a.mark(w.stack, w.of, verb+complete, note)
	})
	return err
}

// changes reports whether the value of one of the properties changes.
func (w *work) changes(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return !template.Equal(w.before[name], w.after[name]) })
}

// generated returns a name for a resource that its template does not name.
func (w *work) generated(most int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	suffix := make([]byte, 12)
	for i := range suffix {
		suffix[i] = letters[rand.IntN(len(letters))]
	}
	prefix := w.stack.name + "-" + w.of.logicalID
	return prefix[:min(len(prefix), most-len(suffix)-1)] + "-" + string(suffix)
}

// named returns the name in a property, or a generated one.
func (w *work) named(property string, most int) string {
	if name := textOf(w.after, property); name != "" {
		return name
	}
	return w.generated(most)
}

// tagsAfter returns all tags that the resource gets; those of its own properties override the stack's.
func (w *work) tagsAfter() map[string]string { return w.allTags(w.after, w.afterTags) }

// tagsBefore returns all tags that the resource had.
func (w *work) tagsBefore() map[string]string { return w.allTags(w.before, w.beforeTags) }

func (w *work) allTags(properties map[string]any, ofStack map[string]string) map[string]string {
	tags := maps.Clone(ofStack)
	if tags == nil {
		tags = map[string]string{}
	}
	if w.kind.systemTags {
		tags["aws:cloudformation:stack-name"], tags["aws:cloudformation:stack-id"] = w.stack.name, w.stack.id
		tags["aws:cloudformation:logical-id"] = w.of.logicalID
	}
	for _, item := range listOf(properties, "Tags") {
		if tag, ok := item.(map[string]any); ok {
			tags[textOf(tag, "Key")] = textOf(tag, "Value")
		}
	}
	return tags
}

// changedTags returns the tags to set, and the keys to remove.
func (w *work) changedTags() (set map[string]string, removed []string) {
	before, after := w.tagsBefore(), w.tagsAfter()
	set = map[string]string{}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			set[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			removed = append(removed, key)
		}
	}
	return set, removed
}

// textOf returns a property as a string; empty if it has no value.
func textOf(properties map[string]any, name string) string { return template.Text(properties[name]) }

// listOf returns a property as a list; nil if it is none.
func listOf(properties map[string]any, name string) []any {
	list, _ := properties[name].([]any)
	return list
}

// textsOf returns a property as a list of strings.
func textsOf(properties map[string]any, name string) []string {
	var all []string
	for _, item := range listOf(properties, name) {
		all = append(all, template.Text(item))
	}
	return all
}

// documentOf returns a property with a JSON document as its text.
func documentOf(properties map[string]any, name string) string {
	if text, ok := properties[name].(string); ok {
		return text
	}
	return jsonText(properties[name])
}

// tagList returns tags as lists of keys and values.
func tagList(tags map[string]string) []object {
	var list []object
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, object{"Key": key, "Value": tags[key]})
	}
	return list
}

// answerOf calls a service and returns its response.
func answerOf[Out any](w *work, c awsCall) (*Out, error) {
	answer, err := w.call(c)
	if err != nil {
		return nil, err
	}
	out, ok := answer.(*Out)
	if !ok {
		return nil, fmt.Errorf("calling %s:%s: the response is %T", c.service, c.action, answer)
	}
	return out, nil
}

// ignoreMissing returns nil for the error of a resource that does not exist.
func ignoreMissing(err error) error {
	if notFound(err) {
		return nil
	}
	return err
}

// alreadyExists is the error of a handler for a resource that was not created by it.
func alreadyExists(kind, name string) error {
	return template.Error(fmt.Sprintf(`Resource handler returned message: "Resource of type '%s' with identifier '%s' already exists." (RequestToken: %s, HandlerErrorCode: AlreadyExists)`,
		kind, name, newRequestID()))
}
