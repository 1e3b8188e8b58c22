package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	runnerv1 "code.gitea.io/actions-proto-go/runner/v1"
	"connectrpc.com/connect"
	"github.com/nektos/act/pkg/common"
	"github.com/nektos/act/pkg/model"
	"github.com/nektos/act/pkg/runner"
	"github.com/sirupsen/logrus"
)

// work runs a job, and reports it. If it cannot be run, its log contains the reason.
func (h *host) work(ctx context.Context, task *runnerv1.Task) error {
	r := newReport(task.Id)
	if err := h.execute(ctx, task, r); err != nil {
		r.fail(err)
	}
	state, rows := r.ended()
	if _, err := h.UpdateLog(ctx, connect.NewRequest(&runnerv1.UpdateLogRequest{TaskId: task.Id, Rows: rows, NoMore: true})); err != nil {
		return fmt.Errorf("report its log: %w", err)
	}
	if _, err := h.UpdateTask(ctx, connect.NewRequest(&runnerv1.UpdateTaskRequest{State: state})); err != nil {
		return fmt.Errorf("report its end: %w", err)
	}
	return nil
}

// execute runs the only job of the task's workflow in a checkout of its commit. The engine accepts that in place of
// actions/checkout, whose source is not available.
func (h *host) execute(ctx context.Context, task *runnerv1.Task, r *report) error {
	workflow, err := model.ReadWorkflow(bytes.NewReader(task.WorkflowPayload))
	if err != nil {
		return fmt.Errorf("read the workflow: %w", err)
	}
	jobs := workflow.GetJobIDs()
	if len(jobs) != 1 {
		return fmt.Errorf("the workflow has the jobs %v, want one", jobs)
	}
	plan, err := model.CombineWorkflowPlanner(workflow).PlanJob(jobs[0])
	if err != nil {
		return fmt.Errorf("plan job %s: %w", jobs[0], err)
	}
	preset := presetOf(task)
	checkout := filepath.Join(h.dir, fmt.Sprintf("checkout-%d", task.Id))
	if err := h.checkout(ctx, preset, checkout); err != nil {
		return err
	}
	defer os.RemoveAll(checkout)
	event, err := json.Marshal(preset.Event)
	if err != nil {
		return fmt.Errorf("encode the event: %w", err)
	}
	level := logrus.InfoLevel
	engine, err := runner.New(&runner.Config{
		Workdir: checkout, ActionCacheDir: filepath.Join(h.dir, "cache"), LogOutput: true, AutoRemove: true, JobLoggerLevel: &level,
		Secrets: task.Secrets, Vars: task.Vars, PresetGitHubContext: preset, EventJSON: string(event),
		GitHubInstance: h.url, DefaultActionInstance: h.url,
		PlatformPicker: func([]string) string { return "-self-hosted" },
	})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err = engine.NewPlanExecutor(plan)(common.WithLoggerHook(ctx, r))
	if r.concluded() {
		return nil // a step that fails is an error, too
	}
	return err
}

// presetOf returns the context that Gitea gives a job.
func presetOf(task *runnerv1.Task) *model.GithubContext {
	given := task.Context.Fields
	text := func(key string) string { return given[key].GetStringValue() }
	return &model.GithubContext{
		Event: given["event"].GetStructValue().AsMap(), EventName: text("event_name"), RunID: text("run_id"), RunNumber: text("run_number"), RunAttempt: text("run_attempt"),
		Actor: text("actor"), Repository: text("repository"), RepositoryOwner: text("repository_owner"), Token: text("token"),
		Sha: text("sha"), Ref: text("ref"), RefName: text("ref_name"), RefType: text("ref_type"), HeadRef: text("head_ref"), BaseRef: text("base_ref"),
	}
}

// checkout fetches the job's commit with the job's own token, which it does not store.
func (h *host) checkout(ctx context.Context, of *model.GithubContext, dir string) error {
	from, err := url.Parse(h.url)
	if err != nil {
		return fmt.Errorf("read the host's address: %w", err)
	}
	from = from.JoinPath(of.Repository + ".git")
	from.User = url.UserPassword("x-access-token", of.Token)
	for _, args := range [][]string{{"init", "--quiet", dir}, {"-C", dir, "fetch", "--quiet", "--depth=1", from.String(), of.Sha}, {"-C", dir, "checkout", "--quiet", "--detach", of.Sha}} {
		git := exec.CommandContext(ctx, "git", args...)
		git.Env = append(git.Environ(), "GIT_TERMINAL_PROMPT=0")
		if said, err := git.CombinedOutput(); err != nil {
			return fmt.Errorf("check out %s: %w: %s", of.Sha, err, strings.ReplaceAll(string(said), of.Token, "***"))
		}
	}
	return nil
}
