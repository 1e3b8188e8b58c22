package awssim

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/cloudformation"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
)

// deleteStack deletes a stack and its resources. Without a stack there is nothing to do.
func (a *account) deleteStack(r *request, in *cloudformation.DeleteStackInput) (*cloudformation.DeleteStackOutput, error) {
	out := &cloudformation.DeleteStackOutput{}
	st, _ := a.findStack(in.StackName)
	retain := aws.StringValueSlice(in.RetainResources)
	switch {
	case st == nil, st.status == stackDeleted, st.status == "DELETE_IN_PROGRESS":
		return out, nil
	case aws.StringValue(in.RoleARN) != "":
		return nil, invalidStack("The simulator does not support RoleARN.")
	case strings.HasSuffix(st.status, inProgress) && st.status != stackReview:
		return nil, invalidStack("Stack [%s] cannot be deleted while in status %s", st.id, st.status)
	case len(retain) > 0 && st.status != "DELETE_FAILED":
		return nil, invalidStack("Invalid operation on stack [%s]. When you delete a stack, specify which resources to retain only when the stack is in the DELETE_FAILED state.", st.id)
	}
	st.token = aws.StringValue(in.ClientRequestToken)
	a.enter(st, "DELETE_IN_PROGRESS", byUser)
	a.begin(r, func(o *operation) {
		failed := o.deleteAll(st, retain, false)
		o.locked(func(a *account) {
			if len(failed) > 0 {
				a.enter(st, "DELETE_FAILED", failedTo("delete", failed))
				return
			}
			st.deleted = a.now
			clear(st.changeSets)
			a.enter(st, stackDeleted, "")
		})
	})
	return out, nil
}

// continueUpdateRollback tries again what a rollback could not revert.
func (a *account) continueUpdateRollback(r *request,
	in *cloudformation.ContinueUpdateRollbackInput,
) (*cloudformation.ContinueUpdateRollbackOutput, error) {
	st, err := a.findStack(in.StackName)
	if err != nil {
		return nil, err
	}
	if st.status != "UPDATE_ROLLBACK_FAILED" {
		return nil, invalidStack("Stack [%s] is in %s state and can not be continued with its rollback.", st.id, st.status)
	}
	skip := aws.StringValueSlice(in.ResourcesToSkip)
	for _, id := range skip {
		if one := st.resources[id]; one == nil || one.status != "UPDATE_FAILED" {
			return nil, invalidStack("Only resources in UPDATE_FAILED state can be skipped: [%s]", id)
		}
	}
	st.token = aws.StringValue(in.ClientRequestToken)
	a.enter(st, "UPDATE_ROLLBACK_IN_PROGRESS", byUser)
	a.begin(r, func(o *operation) { o.rollBack(st, skip) })
	return &cloudformation.ContinueUpdateRollbackOutput{}, nil
}

// outputsOf returns the outputs of a stack. One that cannot be resolved is omitted.
func (a *account) outputsOf(st *stack) []*cloudformation.Output {
	outputs := []*cloudformation.Output{}
	if st.template == nil {
		return outputs
	}
	in, err := a.scope(st, st.desired, (*stackResource).exists)
	if err != nil {
		return outputs
	}
	for name, declared := range st.template.Outputs {
		holds, err := in.Holds(declared.Condition)
		if err != nil || !holds {
			continue
		}
		value, err := in.Resolve(declared.Value)
		if err != nil {
			continue
		}
		outputs = append(outputs, &cloudformation.Output{
			OutputKey: aws.String(name), OutputValue: aws.String(template.Text(value)), Description: optional(declared.Description),
		})
	}
	slices.SortFunc(outputs, func(x, y *cloudformation.Output) int { return strings.Compare(*x.OutputKey, *y.OutputKey) })
	return outputs
}
