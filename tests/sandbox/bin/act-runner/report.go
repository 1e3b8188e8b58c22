package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	runnerv1 "code.gitea.io/actions-proto-go/runner/v1"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// report is the result of a job, according to its engine's log.
type report struct {
	mu    sync.Mutex
	state *runnerv1.TaskState
	steps map[int64]*runnerv1.StepState
	rows  []*runnerv1.LogRow
}

func newReport(task int64) *report {
	return &report{state: &runnerv1.TaskState{Id: task, StartedAt: timestamppb.Now()}, steps: map[int64]*runnerv1.StepState{}}
}

// Levels returns the levels that Fire is called for.
func (r *report) Levels() []logrus.Level { return logrus.AllLevels }

// Fire handles an entry of the engine's log: a line of a step's output, an error, or a result.
func (r *report) Fire(entry *logrus.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	step := r.stepOf(entry)
	if entry.Data["raw_output"] == true || entry.Level <= logrus.ErrorLevel {
		r.add(entry.Time, entry.Message, step)
	}
	if how, has := entry.Data["stepResult"]; has && step != nil {
		step.Result, step.StoppedAt = resultOf(how), timestamppb.New(entry.Time)
	}
	if how, has := entry.Data["jobResult"]; has {
		r.state.Result = resultOf(how)
	}
	return nil
}

// stepOf returns the step of an entry, in its main stage; nil if there is none.
func (r *report) stepOf(entry *logrus.Entry) *runnerv1.StepState {
	number, numbered := entry.Data["stepNumber"].(int)
	if !numbered || entry.Data["stage"] != "Main" {
		return nil
	}
	step := r.steps[int64(number)]
	if step == nil {
		step = &runnerv1.StepState{Id: int64(number), StartedAt: timestamppb.New(entry.Time), LogIndex: int64(len(r.rows))}
		r.steps[step.Id] = step
	}
	return step
}

func (r *report) add(at time.Time, line string, step *runnerv1.StepState) {
	r.rows = append(r.rows, &runnerv1.LogRow{Time: timestamppb.New(at), Content: strings.TrimRight(line, "\r\n")})
	if step != nil {
		step.LogLength = int64(len(r.rows)) - step.LogIndex
	}
}

// fail reports a job that could not be run.
func (r *report) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(time.Now(), err.Error(), nil)
	r.state.Result = runnerv1.Result_RESULT_FAILURE
}

// concluded reports whether the engine has reported the job's result.
func (r *report) concluded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Result != runnerv1.Result_RESULT_UNSPECIFIED
}

// ended returns the state of a completed job, and its log.
func (r *report) ended() (*runnerv1.TaskState, []*runnerv1.LogRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.StoppedAt = timestamppb.Now()
	if r.state.Result == runnerv1.Result_RESULT_UNSPECIFIED {
		r.state.Result = runnerv1.Result_RESULT_FAILURE
	}
	r.state.Steps = slices.SortedFunc(maps.Values(r.steps), func(a, b *runnerv1.StepState) int { return cmp.Compare(a.Id, b.Id) })
	return r.state, r.rows
}

func resultOf(how any) runnerv1.Result {
	switch fmt.Sprint(how) {
	case "success":
		return runnerv1.Result_RESULT_SUCCESS
	case "skipped":
		return runnerv1.Result_RESULT_SKIPPED
	case "cancelled":
		return runnerv1.Result_RESULT_CANCELLED
	}
	return runnerv1.Result_RESULT_FAILURE
}
