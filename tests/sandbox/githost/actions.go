package githost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// RunnerToken returns the token with which a runner of a repository's Actions registers.
func (h *Host) RunnerToken(ctx context.Context, r Repository) (string, error) {
	var made struct {
		Token string `json:"token"`
	}
	if err := h.call(ctx, h.Admin, http.MethodPost, r.path()+"/actions/runners/registration-token", nil, &made); err != nil {
		return "", fmt.Errorf("make a token for a runner of %s/%s: %w", r.Owner, r.Name, err)
	}
	return made.Token, nil
}

// Job is a job of a workflow that ran for a commit.
type Job struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	// Status is "completed" once it is over, and Conclusion is its result.
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
}

// Jobs returns those of a commit, the newest run first.
func (h *Host) Jobs(ctx context.Context, r Repository, commit string) ([]Job, error) {
	var runs struct {
		Runs []struct {
			ID int64 `json:"id"`
		} `json:"workflow_runs"`
	}
	if err := h.call(ctx, h.Admin, http.MethodGet, r.path()+"/actions/runs?head_sha="+url.QueryEscape(commit), nil, &runs); err != nil {
		return nil, fmt.Errorf("list what Actions of %s/%s have run: %w", r.Owner, r.Name, err)
	}
	var all []Job
	for _, run := range runs.Runs {
		var found struct {
			Jobs []Job `json:"jobs"`
		}
		if err := h.call(ctx, h.Admin, http.MethodGet, fmt.Sprintf("%s/actions/runs/%d/jobs", r.path(), run.ID), nil, &found); err != nil {
			return nil, fmt.Errorf("list the jobs of run %d of %s/%s: %w", run.ID, r.Owner, r.Name, err)
		}
		all = append(all, found.Jobs...)
	}
	return all, nil
}

// JobLog returns what a job has printed.
func (h *Host) JobLog(ctx context.Context, r Repository, job int64) (string, error) {
	what := fmt.Sprintf("read the log of job %d of %s/%s", job, r.Owner, r.Name)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1%s/actions/jobs/%d/logs", h.URL, r.path(), job), nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	request.Header.Set("Authorization", "token "+h.Admin.Token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	if _, err := io.Copy(&text, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %w: %s", what, answer.Status, err, text.String())
	}
	return text.String(), nil
}
