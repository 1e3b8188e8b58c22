package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/bootstrap/deploy"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// stackRounds is how often a bootstrap plans: an import, a creation or an update, and again after another client was first.
const stackRounds = 6

// applyStack brings the stack to its template, and shows and confirms the plan first. Each round reads the stack: the
// change may take several, and another client may change it as well.
func (b *bootstrapCommand) applyStack(ctx context.Context, wish bootstrap.Wish, facts bootstrap.Facts, steps []bootstrapStep) error {
	confirmed := false
	for range stackRounds {
		settled, err := b.settle(ctx, facts)
		if err != nil {
			return err
		}
		if settled {
			if facts, err = b.stack.Read(ctx, b.aws, b.cluster, wish); err != nil {
				return err
			}
			continue
		}
		spec, _, err := bootstrap.Decide(wish, facts)
		if err != nil {
			return err
		}
		done, err := b.round(ctx, spec, facts, steps, &confirmed)
		var conflict *deploy.ConflictError
		switch {
		case errors.As(err, &conflict):
			b.say("another client was first: " + conflict.Error())
		case done || err != nil:
			return err
		}
		if facts, err = b.stack.Read(ctx, b.aws, b.cluster, wish); err != nil {
			return err
		}
	}
	return fmt.Errorf("stack %s: other clients change it all the time; run this command again later", b.stack.Stack)
}

// settle does what has to happen to the stack before a change set can be made of it, and reports whether it did anything.
func (b *bootstrapCommand) settle(ctx context.Context, facts bootstrap.Facts) (did bool, err error) {
	action, why := bootstrap.Next(facts.Stack, facts.Failure)
	switch action {
	case bootstrap.Refuse:
		return false, errors.New(why)
	case bootstrap.Create, bootstrap.Update:
		return false, b.active(ctx, facts.Cluster)
	default:
	}
	if who := b.stack.Owner(ctx); who != "" && action == bootstrap.Follow {
		why += ", started by " + who
	}
	if b.dryRun {
		fmt.Fprintln(b.cmd.OutOrStdout(), why)
		return false, &exitError{code: exitChanges, message: "plumbline: nothing was changed"}
	}
	b.say(why)
	switch action {
	case bootstrap.Follow:
		_, err = b.stack.Follow(ctx, "")
		var failed *deploy.FailedError
		if errors.As(err, &failed) {
			err = nil // the next round decides by the state
		}
	case bootstrap.Continue:
		if err = b.confirm("Continue the rollback?"); err == nil {
			err = b.stack.Continue(ctx, facts.Stack)
		}
	case bootstrap.Recreate:
		if err = b.confirm("Delete what is left of the stack?"); err == nil {
			err = b.stack.Delete(ctx, facts.Stack)
		}
	default:
	}
	return true, b.interrupted(ctx, err)
}

// active waits while EKS updates the cluster: it refuses other changes meanwhile.
func (b *bootstrapCommand) active(ctx context.Context, c cloud.Cluster) error {
	for said := false; c.Status == "UPDATING" && !b.dryRun; said = true {
		if !said {
			b.say("EKS updates the cluster; waiting until it is ACTIVE")
		}
		err := b.pause(ctx, stackPoll)
		if err == nil {
			c, err = b.aws.Cluster(ctx, b.cluster)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bootstrapCommand) confirm(question string) error {
	if b.yes {
		return nil
	}
	return confirmYes(b.cmd, question)
}

// interrupted adds to the error of a command that the user stops what happens to the stack.
func (b *bootstrapCommand) interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &exitError{code: exitFailed, message: "plumbline: stopped; CloudFormation completes or rolls back what it has begun in stack " +
		b.stack.Stack + ". Run the same command again to continue"}
}

// round plans once, and executes the plan. done is true if there is nothing left to change.
func (b *bootstrapCommand) round(
	ctx context.Context, spec bootstrap.Spec, facts bootstrap.Facts, steps []bootstrapStep, confirmed *bool,
) (done bool, err error) {
	template, err := bootstrap.New(spec)
	if err != nil {
		return false, err
	}
	plan, err := b.stack.Plan(ctx, facts.Stack, facts.Current, template)
	if err != nil {
		return false, b.interrupted(ctx, err)
	}
	pending := pendingOf(steps)
	if !*confirmed {
		if err := b.show(spec, template, plan, pending); err != nil {
			return false, err
		}
	}
	if b.dryRun {
		if err := b.stack.Discard(ctx, plan); err != nil {
			return false, err
		}
		if plan.Kind == "" && len(pending) == 0 {
			return true, errNothingToDo
		}
		return false, &exitError{code: exitChanges}
	}
	if (plan.Kind != "" || len(pending) > 0) && !*confirmed {
		if err := b.confirm("Proceed?"); err != nil {
			return false, errors.Join(err, b.stack.Discard(context.WithoutCancel(ctx), plan))
		}
		*confirmed = true
	}
	if plan.Kind == "" {
		return true, nil
	}
	return false, b.interrupted(ctx, b.stack.Execute(ctx, plan))
}

// errNothingToDo ends a dry run without changes.
var errNothingToDo = &exitError{code: exitDone}

// show prints a plan: a row for each resource, the policies that change as diffs, shortened names, and the later steps.
func (b *bootstrapCommand) show(spec bootstrap.Spec, template bootstrap.Template, plan deploy.Plan, pending []bootstrapStep) error {
	out := &display.Visible{Writer: b.cmd.OutOrStdout()}
	if plan.Kind == "" {
		fmt.Fprintf(out, "stack %s is up to date\n", b.stack.Stack)
	} else {
		fmt.Fprintf(out, "stack %s: %s\n\n", b.stack.Stack, english.Plural(len(plan.Changes), "change", ""))
		changes := plan.Changes
		if plan.Kind == "IMPORT" {
			changes = append(changes, template.Additions(plan.After)...)
		}
		printChanges(out, changes, spec.AllNames(template))
		diffs, err := bootstrap.Diffs(plan.Before, template)
		if err != nil {
			return err
		}
		for _, diff := range diffs {
			fmt.Fprintf(out, "\n%s", diff.Text)
		}
	}
	for id, name := range spec.AllNames(template).Shortened(spec.Cluster.Name) {
		fmt.Fprintf(out, "%s has the shortened name %s\n", id, name)
	}
	if len(pending) > 0 {
		fmt.Fprintln(out, "\nthen:")
	}
	for _, step := range pending {
		fmt.Fprintf(out, "  %s: %s\n", step.title, strings.ReplaceAll(step.plan, "\n", "\n    "))
	}
	return nil
}

func printChanges(out io.Writer, changes []cloud.StackChange, names bootstrap.Names) {
	t := display.NewFittedTable(out, "ACTION", "RESOURCE", "TYPE", "NAME", "CHANGES")
	for _, c := range changes {
		what := strings.Join(c.Properties, ", ")
		if c.Replacement == "True" || c.Replacement == "Conditional" {
			what += " (replaced)"
		}
		t.AppendRow([]any{c.Action, c.ID, strings.TrimPrefix(c.Type, "AWS::"), orNone(names[c.ID]), orNone(what)})
	}
	t.Render()
}
