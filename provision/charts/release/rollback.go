package release

import (
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// earlier turns a task into one that installs what a revision of the release was made
// from: a release holds its whole chart and its values, so that no registry is asked.
func (h *helm) earlier(t task, revision int) (task, Mark, error) {
	history, err := h.readable(t.Name)
	if err != nil {
		return task{}, Mark{}, err
	}
	at := slices.IndexFunc(history, func(one *helmrelease.Release) bool { return one.Version == revision })
	if at < 0 {
		return task{}, Mark{}, &NoRevisionError{Release: t.Name, Revision: revision}
	}
	found := history[at]
	t.Version, t.Values = found.Chart.Metadata.Version, found.Config
	t.Load = func() (*chart.Chart, error) { return found.Chart, nil }
	t.earlier, t.Digest = true, ""
	mark := markOf(found.Labels)
	if mark.Digest != "" {
		t.Digest = "sha256:" + mark.Digest
	}
	return t, mark, nil
}

// Earlier is the revision of the main chart before those that are made from the same as the last
// one: what RollBack goes back to where nobody has noted it. Its Revision is 0 where there is none.
func (i *Installer) Earlier(ctx context.Context, namespace string) (Result, error) {
	revisions, err := listRevisions(ctx, i.secrets(namespace))
	if err != nil {
		return Result{}, err
	}
	return earlierThan(last(charts.ControllerChart, revisions), revisions).result(Keep), nil
}

// RollBack installs the main chart again as it was at a revision of its release.
// The CRDs stay as they are. Errors: *NoRevisionError and those of EnsureController.
func (i *Installer) RollBack(ctx context.Context, request Request, revision int) (Result, error) {
	state, err := i.State(ctx, request.Namespace)
	if err != nil {
		return Result{}, err
	}
	last := state.Controller
	if last.Readable, err = i.lastReadable(task{Chart: charts.Chart{Name: charts.ControllerChart}, namespace: request.Namespace}); err != nil {
		return Result{}, err
	}
	helm, err := newHelm(i.config, request.Namespace, i.options.Logger)
	if err != nil {
		return Result{}, err
	}
	t, mark, err := helm.earlier(task{
		Chart: charts.Chart{Name: charts.ControllerChart}, namespace: request.Namespace, ignored: request.Ignored, permit: request.Permit,
	}, revision)
	if err != nil {
		return Result{}, err
	}
	if last.Status == Deployed && !last.Edited && last.Mark == mark && last.Readable == last.Revision {
		return last.result(Keep), nil
	}
	step := Upgrade
	if last.Status == Pending || last.Readable < last.Revision {
		step = Recover
	}
	if err := i.options.StillLeader(ctx); err != nil {
		return Result{}, fmt.Errorf("roll helm release %s back: %w", t.Name, err)
	}
	i.options.Logger.Info("rolling a helm release back", "release", t.Name, "to", revision, "version", t.Version, "revision", last.Readable+1)
	if err := i.carryOut(ctx, t, step, last, mark); err != nil {
		return last.result(step), fmt.Errorf("roll helm release %s back to revision %d at version %s: %w", t.Name, revision, t.Version, err)
	}
	return Result{Step: step, Changed: true, Revision: last.Readable + 1, Version: t.Version}, nil
}

// NoRevisionError says that a release no longer has such a revision.
type NoRevisionError struct {
	Release  string
	Revision int
}

// Error names the revision.
func (e *NoRevisionError) Error() string {
	return fmt.Sprintf("revision %d of helm release %s no longer exists, so it cannot be rolled back to: commit a version that works", e.Revision, e.Release)
}
