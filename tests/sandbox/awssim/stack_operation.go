package awssim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/service/cloudformation"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// operation is what CloudFormation does after it has responded to its caller, whether the caller still runs or not. It
// calls the other services with the caller's permissions, and holds the mutex only between calls.
type operation struct {
	*Simulator
	ctx    context.Context
	caller *request
}

// beginOperation runs an operation on behalf of a call once the call has released the mutex.
func (s *Simulator) beginOperation(r *request, run func(*operation)) {
	o := &operation{Simulator: s, ctx: context.WithoutCancel(r.http.Context()), caller: r}
	go run(o)
}

// awsCall is a call to another service. Input is the form or the body, path and query are those of REST.
type awsCall struct {
	service, action string
	input           object
	path            map[string]string
	query           url.Values
}

// refusal is the error of a call that CloudFormation has made.
type refusal struct {
	failure            *wire.Error
	service, requestID string
	attempts           int
}

// Error implements error.
func (r *refusal) Error() string { return r.failure.Error() }

// Unwrap returns the service's error.
func (r *refusal) Unwrap() error { return r.failure }

// codeOf returns the code of a service's error; empty without one.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return wire.AsError(err).Code
}

// notFound reports whether an error is that of a resource that does not exist.
func notFound(err error) bool {
	code := codeOf(err)
	return code == "NoSuchEntity" || code == "ResourceNotFoundException" || strings.HasSuffix(code, "QueueDoesNotExist")
}

// CloudFormation retries calls that are throttled.
const (
	mostAttempts = 5
	firstBackoff = 50 * time.Millisecond
)

// viaCloudFormation is the service by which a call is made: the condition key aws:CalledVia, and the user agent.
const viaCloudFormation = "cloudformation.amazonaws.com"

// call calls a service with the caller's permissions. All faults apply to it.
func (o *operation) call(c awsCall) (any, error) {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		req, err := o.request(c)
		if err != nil {
			return nil, err
		}
		answer, err := o.perform(o.ctx, req)
		o.record(req, err)
		if err == nil {
			return answer, nil
		}
		failure := wire.AsError(err)
		if failure.Code != req.service.throttled || attempt == mostAttempts {
			return nil, &refusal{failure: failure, service: c.service, requestID: req.id, attempts: attempt}
		}
		if err := pause(o.ctx, backoff); err != nil {
			return nil, err
		}
		backoff *= 2
	}
}

func (o *operation) request(c awsCall) (*request, error) {
	svc := o.services[c.service]
	body, err := json.Marshal(c.input)
	if err != nil {
		return nil, fmt.Errorf("writing a call of %s:%s: %w", c.service, c.action, err)
	}
	h := o.caller.http.Clone(o.ctx)
	h.URL, h.Header, h.RemoteAddr = &url.URL{Path: "/", RawQuery: c.query.Encode()}, http.Header{}, ""
	h.Body = io.NopCloser(bytes.NewReader(body))
	req := &request{
		id: newRequestID(), service: svc, action: c.action, http: h, path: c.path, started: o.options.Now(), via: viaCloudFormation,
		principal: principal{AccessKey: o.caller.principal.AccessKey, UserAgent: viaCloudFormation},
	}
	if svc.protocol == wire.Query {
		req.form = url.Values{}
		fill(req.form, "", c.input)
	} else {
		req.body = body
	}
	return req, nil
}

// fill writes the fields of an input into a form of the query protocol.
func fill(form url.Values, prefix string, value any) {
	switch v := value.(type) {
	case nil:
	case object:
		for name, field := range v {
			fill(form, strings.TrimPrefix(prefix+"."+name, "."), field)
		}
	case []object:
		for i, item := range v {
			fill(form, prefix+".member."+strconv.Itoa(i+1), item)
		}
	case []string:
		for i, item := range v {
			form.Set(prefix+".member."+strconv.Itoa(i+1), item)
		}
	default:
		if text := template.Text(value); text != "" {
			form.Set(prefix, text)
		}
	}
}

// handlerCodes are the codes of CloudFormation's resource handlers, by the code of a service's error:
// https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-test-contract-errors.html
var handlerCodes = map[string]string{
	"AccessDenied": "AccessDenied", "AccessDeniedException": "AccessDenied", "UnauthorizedOperation": "AccessDenied",
	"EntityAlreadyExists": "AlreadyExists", "ResourceInUseException": "AlreadyExists", "QueueNameExists": "AlreadyExists",
	"NoSuchEntity": "NotFound", "ResourceNotFoundException": "NotFound", "com.amazonaws.sqs#QueueDoesNotExist": "NotFound",
	"Throttling": "Throttling", "ThrottlingException": "Throttling", "LimitExceeded": "ServiceLimitExceeded",
	"DeleteConflict":  "ResourceConflict",
	"ValidationError": "InvalidRequest", "MalformedPolicyDocument": "InvalidRequest", "InvalidParameterException": "InvalidRequest",
	"InvalidParameterValue": "InvalidRequest", "ValidationException": "InvalidRequest", "InvalidRequestException": "InvalidRequest",
}

// serviceNames are the names of services in the messages of handlers.
var serviceNames = map[string]string{"iam": "Iam", "sqs": "Sqs", "events": "EventBridge", "eks": "Eks"}

// reasonOf returns the reason of an event, in the words of CloudFormation's handlers.
func reasonOf(err error) string {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return err.Error()
	}
	code := handlerCodes[refused.failure.Code]
	if code == "" {
		code = "GeneralServiceException"
	}
	return fmt.Sprintf(`Resource handler returned message: "%s (Service: %s, Status Code: %d, Request ID: %s) (SDK Attempt Count: %d)" (RequestToken: %s, HandlerErrorCode: %s)`,
		refused.failure.Message, serviceNames[refused.service], refused.failure.Status, refused.requestID, refused.attempts, newRequestID(), code)
}

// plan computes the changes of a change set.
func (o *operation) plan(set *changeSet) {
	o.locked(func(*account) { set.status = "CREATE_IN_PROGRESS" })
	if pause(o.ctx, o.options.ResourceTime) != nil {
		return
	}
	o.locked(func(a *account) {
		changes, err := a.changesOf(set)
		same := set.stack.template != nil && equalOutputs(set.stack.template.Outputs, set.template.Outputs)
		switch {
		case err != nil:
			set.status, set.reason = "FAILED", err.Error()
		case len(changes) == 0 && same:
			set.status, set.reason = "FAILED", nothingChanges
		default:
			set.changes, set.status, set.execution = changes, "CREATE_COMPLETE", "AVAILABLE"
		}
	})
}

// execute makes a stack what a change set wants. If a resource fails, the stack goes back to what it was.
func (o *operation) execute(set *changeSet) {
	st := set.stack
	var before desired
	o.locked(func(*account) { before, st.desired = st.desired, set.desired })
	u := &update{operation: o, set: set, stack: st, present: map[string]bool{}}
	u.failed = u.applyAll()
	o.locked(func(*account) {
		if set.execution = "EXECUTE_COMPLETE"; len(u.failed) > 0 {
			set.execution = "EXECUTE_FAILED"
		}
	})
	switch {
	case len(u.failed) == 0:
		u.finish()
	case set.kind == "CREATE":
		u.rollbackCreation()
	case set.kind == "IMPORT":
		u.rollbackImport(before)
	default:
		o.locked(func(a *account) {
			st.failed = failedUpdate{undo: u.undo, before: before}
			verb := "update"
			if r := st.resources[u.failed[0]]; r != nil && r.status == "CREATE_FAILED" {
				verb = "create"
			}
			a.enter(st, "UPDATE_ROLLBACK_IN_PROGRESS", failedTo(verb, u.failed))
		})
		o.rollBack(st, nil)
	}
}

// failedTo returns CloudFormation's reason for a stack whose resources failed.
func failedTo(verb string, ids []string) string {
	return fmt.Sprintf("The following resource(s) failed to %s: [%s]. ", verb, strings.Join(ids, ", "))
}

// update is the execution of a change set.
type update struct {
	*operation
	set      *changeSet
	stack    *stack
	undo     []undo           // what was done, in order
	replaced []*stackResource // to delete once all is done
	present  map[string]bool  // logical IDs of the template whose conditions hold
	failed   []string
}

// undo is a change of a resource that a rollback reverts. Before is nil if the resource was created.
type undo struct {
	resource  *stackResource
	before    *stackResource
	attempted map[string]any // the properties that the change has applied, or some of them
	tags      map[string]string
}

// failedUpdate is what a rollback of an update still has to do.
type failedUpdate struct {
	undo    []undo
	created []*stackResource
	before  desired
}

// applyAll applies the template's resources in order, and returns those that failed.
func (u *update) applyAll() []string {
	order, err := u.set.template.Order()
	if err != nil {
		return []string{u.stack.name}
	}
	for _, id := range order {
		if err := u.apply(id); err != nil {
			return []string{id}
		}
	}
	return nil
}

// apply creates, imports, changes or replaces a resource. The reason of an error is in the resource's event.
func (u *update) apply(id string) error {
	var w *work
	var step func(*update, *work) error
	var err error
	u.locked(func(a *account) {
		if w, step, err = u.next(a, id); err != nil {
			a.mark(u.stack, &stackResource{logicalID: id, kind: u.set.template.Resources[id].Type}, u.set.kind+hasFailed, err.Error())
		}
	})
	if err != nil || step == nil {
		return err
	}
	if err := pause(u.ctx, u.options.ResourceTime); err != nil {
		return err
	}
	return step(u, w)
}

// next returns what to do with a resource, and the work. The mutex is held.
func (u *update) next(a *account, id string) (*work, func(*update, *work) error, error) {
	in, err := a.scope(u.stack, u.set.desired, (*stackResource).exists)
	if err != nil {
		return nil, nil, err
	}
	properties, holds, err := propertiesOf(in, id)
	if err != nil || !holds {
		return nil, nil, err
	}
	u.present[id] = true
	declared := u.set.template.Resources[id]
	kind := resourceKinds[declared.Type]
	r := u.stack.resources[id]
	fresh := &stackResource{logicalID: id, kind: declared.Type, declared: declared, properties: properties, attributes: map[string]string{}}
	w := &work{operation: u.operation, stack: u.stack, of: fresh, kind: kind, after: properties, afterTags: u.set.tags}
	if !r.exists() {
		u.stack.resources[id] = fresh
		if u.set.imports[id] != nil {
			a.mark(u.stack, fresh, "IMPORT"+inProgress, "Resource import started.")
			return w, (*update).adopt, nil
		}
		a.mark(u.stack, fresh, "CREATE"+inProgress, "")
		return w, (*update).create, nil
	}
	return u.nextChange(a, w, r)
}

// nextChange returns how a resource that exists becomes the one that the work is for.
func (u *update) nextChange(a *account, w *work, r *stackResource) (*work, func(*update, *work) error, error) {
	fresh := w.of
	c := u.set.changeOf(r, r.logicalID, w.after)
	w.of, w.before, w.beforeTags = r, r.properties, r.tags
	if c.replacement != cloudformation.ReplacementFalse {
		a.mark(u.stack, r, "UPDATE"+inProgress, "Requested update requires the creation of a new physical resource; hence creating one.")
		w.replacement = fresh
		return w, (*update).replace, nil
	}
	before := *r
	r.declared = fresh.declared
	if c.action == "" {
		return nil, nil, nil
	}
	u.undo = append(u.undo, undo{resource: r, before: &before, attempted: w.after, tags: w.afterTags})
	if len(c.properties) == 0 && !c.tags {
		return nil, nil, nil // only its policies
	}
	a.mark(u.stack, r, "UPDATE"+inProgress, "")
	return w, (*update).change, nil
}

func (u *update) create(w *work) error {
	u.undo = append(u.undo, undo{resource: w.of})
	return w.end("CREATE", "", w.create())
}

func (u *update) change(w *work) error {
	return w.end("UPDATE", "", w.update())
}

// replace creates another physical resource; the one before is deleted once the stack is updated.
func (u *update) replace(w *work) error {
	old := w.of
	sameName := w.kind.name != "" && textOf(w.after, w.kind.name) != "" && !w.changes(w.kind.name)
	if sameName && old.kind == w.replacement.kind {
		before := *old
		u.undo = append(u.undo, undo{resource: old, before: &before, attempted: w.before, tags: w.beforeTags})
		return w.end("UPDATE", "", template.Error("CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename "+
			textOf(w.after, w.kind.name)+" and update the stack again."))
	}
	u.undo = append(u.undo, undo{resource: w.replacement, before: old})
	u.locked(func(*account) { u.stack.resources[old.logicalID] = w.replacement })
	w.of = w.replacement
	if err := w.end("UPDATE", "", w.create()); err != nil {
		return err
	}
	u.replaced = append(u.replaced, old)
	return nil
}

// adopt takes an existing resource into the stack. It changes nothing but its tags.
func (u *update) adopt(w *work) error {
	physicalID, attributes, err := w.kind.read(w, u.set.imports[w.of.logicalID])
	if err == nil {
		u.locked(func(*account) { w.of.physicalID, w.of.attributes = physicalID, attributes })
	}
	if err := w.end("IMPORT", "Resource import completed.", err); err != nil {
		return err
	}
	if !w.kind.taggable {
		return nil
	}
	u.locked(func(a *account) {
		a.mark(u.stack, w.of, "UPDATE"+inProgress, "Apply stack-level tags to imported resource if applicable.")
	})
	w.before = w.after
	return w.end("UPDATE", "", w.update())
}

// finish deletes what the stack no longer contains, and ends the execution.
func (u *update) finish() {
	st := u.stack
	if u.set.kind == "UPDATE" {
		var gone []*stackResource
		u.locked(func(a *account) {
			for _, r := range st.listed() {
				if !u.present[r.logicalID] {
					gone = append(gone, r)
					delete(st.resources, r.logicalID)
				}
			}
			a.enter(st, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "")
		})
		// A resource that cannot be deleted is no longer the stack's: its event is all that remains.
		for _, r := range u.replaced {
			_ = u.delete(st, r, keeps(r.declared.UpdateReplacePolicy, false))
		}
		for _, r := range byDependents(gone) {
			_ = u.delete(st, r, keeps(r.declared.DeletionPolicy, false))
		}
	}
	u.locked(func(a *account) {
		st.outputs = a.outputsOf(st)
		a.enter(st, u.set.kind+complete, "")
	})
}

// byDependents orders resources of a stack so that what refers to another comes first.
func byDependents(all []*stackResource) []*stackResource {
	resources := map[string]template.Resource{}
	for _, r := range all {
		resources[r.logicalID] = r.declared
	}
	order, err := (&template.Template{Resources: resources}).Order()
	if err != nil {
		return all
	}
	slices.SortFunc(all, func(x, y *stackResource) int {
		return slices.Index(order, y.logicalID) - slices.Index(order, x.logicalID)
	})
	return all
}

func (u *update) rollbackCreation() {
	u.locked(func(a *account) {
		a.enter(u.stack, "ROLLBACK_IN_PROGRESS", strings.Replace(failedTo("create", u.failed), ". ", ". Rollback requested by user.", 1))
	})
	if failed := u.deleteAll(u.stack, nil, true); len(failed) > 0 {
		u.locked(func(a *account) { a.enter(u.stack, "ROLLBACK_FAILED", failedTo("delete", failed)) })
		return
	}
	u.locked(func(a *account) { a.enter(u.stack, "ROLLBACK_COMPLETE", "") })
}

// rollbackImport removes what was imported from the stack, and leaves it as it is.
func (u *update) rollbackImport(before desired) {
	u.locked(func(a *account) {
		a.enter(u.stack, "IMPORT_ROLLBACK_IN_PROGRESS", failedTo("import", u.failed))
		for id := range u.set.imports {
			if r := u.stack.resources[id]; r != nil {
				a.mark(u.stack, r, "IMPORT_ROLLBACK_COMPLETE", "")
				delete(u.stack.resources, id)
			}
		}
		u.stack.desired = before
		a.enter(u.stack, "IMPORT_ROLLBACK_COMPLETE", "")
	})
}

// rollBack reverts a failed update, the last change first, without the resources to skip.
func (o *operation) rollBack(st *stack, skip []string) {
	var todo []undo
	o.locked(func(*account) { todo = slices.Clone(st.failed.undo) })
	slices.Reverse(todo)
	var remaining []undo
	var failed []string
	for _, u := range todo {
		if slices.Contains(skip, u.resource.logicalID) {
			continue
		}
		if err := o.revert(st, u); err != nil {
			remaining, failed = append(remaining, u), append(failed, u.resource.logicalID)
		}
	}
	if len(failed) > 0 {
		slices.Reverse(remaining)
		o.locked(func(a *account) {
			st.failed.undo = remaining
			a.enter(st, "UPDATE_ROLLBACK_FAILED", failedTo("update", failed))
		})
		return
	}
	var created []*stackResource
	o.locked(func(a *account) {
		created, st.desired = st.failed.created, st.failed.before
		st.failed = failedUpdate{}
		a.enter(st, "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "")
	})
	for _, r := range created {
		// A resource that cannot be deleted is no longer the stack's: its event is all that remains.
		_ = o.delete(st, r, keeps(r.declared.DeletionPolicy, true))
	}
	o.locked(func(a *account) {
		st.outputs = a.outputsOf(st)
		a.enter(st, "UPDATE_ROLLBACK_COMPLETE", "")
	})
}

// revert reverts one change of a failed update.
func (o *operation) revert(st *stack, u undo) error {
	r := u.resource
	var w *work
	o.locked(func(a *account) {
		if u.before == nil || u.before.physicalID != r.physicalID {
			st.failed.created = append(st.failed.created, r)
			if u.before == nil {
				delete(st.resources, r.logicalID)
			} else {
				st.resources[r.logicalID] = u.before
				a.mark(st, u.before, "UPDATE"+complete, "")
			}
			return
		}
		w = &work{
			operation: o, stack: st, of: r, kind: resourceKinds[r.kind], before: u.attempted, after: u.before.properties,
			beforeTags: u.tags, afterTags: u.before.tags,
		}
		r.declared = u.before.declared
		a.mark(st, r, "UPDATE"+inProgress, "")
	})
	if w == nil {
		return nil
	}
	if err := pause(o.ctx, o.options.ResourceTime); err != nil {
		return err
	}
	return w.end("UPDATE", "", w.update())
}

// deleteAll deletes the resources of a stack, those that refer to others first, and returns those that failed. What a
// failed one refers to is kept.
func (o *operation) deleteAll(st *stack, retain []string, rollback bool) []string {
	var all []*stackResource
	o.locked(func(a *account) {
		for _, r := range st.listed() {
			switch {
			case !r.exists():
			case slices.Contains(retain, r.logicalID), keeps(r.declared.DeletionPolicy, rollback):
				a.mark(st, r, deleteSkipped, "")
			default:
				all = append(all, r)
			}
		}
	})
	var failed []string
	kept := map[string]bool{}
	for _, r := range byDependents(all) {
		var err error
		if !kept[r.logicalID] {
			err = o.delete(st, r, false)
		}
		if err != nil {
			failed = append(failed, r.logicalID)
		}
		if err != nil || kept[r.logicalID] {
			for _, id := range r.references() {
				kept[id] = true
			}
		}
	}
	return failed
}

// references returns the logical IDs of the resources that a resource refers to.
func (r *stackResource) references() []string {
	return (&template.Template{Resources: map[string]template.Resource{r.logicalID: r.declared}}).Dependencies(r.logicalID)
}

// keeps reports whether a policy keeps a resource. RetainExceptOnCreate does, unless its creation is rolled back.
func keeps(policy string, rollback bool) bool {
	return policy == "Retain" || policy == "RetainExceptOnCreate" && !rollback
}

// delete deletes a resource of a stack, or only removes it from the stack to keep it.
func (o *operation) delete(st *stack, r *stackResource, keep bool) error {
	var w *work
	o.locked(func(a *account) {
		switch {
		case r.physicalID == "":
			return
		case keep:
			a.mark(st, r, deleteSkipped, "")
			return
		}
		w = &work{operation: o, stack: st, of: r, kind: resourceKinds[r.kind], before: maps.Clone(r.properties)}
		a.mark(st, r, "DELETE"+inProgress, "")
	})
	if w == nil {
		return nil
	}
	if err := pause(o.ctx, o.options.ResourceTime); err != nil {
		return err
	}
	err := w.kind.delete(w)
	if notFound(err) {
		err = nil
	}
	return w.end("DELETE", "", err)
}
