package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// Reports queues commit statuses until the Git hosts have received them. It does not block a reconcile on any host.
type Reports interface {
	// Head returns the commit of the last update.
	Head(ctx context.Context, sync *v1alpha1.NodeSync) (string, error)
	// Record queues a verdict; it is stored in the cluster when Record returns.
	Record(ctx context.Context, sync *v1alpha1.NodeSync, s report.Update) error
	// Reported returns what was last reported, and the failures of the hosts.
	Reported(sync *v1alpha1.NodeSync) (list []v1alpha1.Reported, known bool)
	// PostFinalStatus queues the final status of a NodeSync that is being deleted, and reports whether there is nothing
	// more to wait for.
	PostFinalStatus(ctx context.Context, sync *v1alpha1.NodeSync, f report.FinalStatus) (done bool, err error)
	// Forget drops what is kept for a NodeSync that is gone.
	Forget(name types.NamespacedName)
}

// report reports the verdict as a commit status. A failure to do so never fails the reconcile: an event and the status
// report it. It returns false if a host must first be queried for the commits that the revision added: the status does
// not wait for that.
func (s *Step) report(ctx context.Context) bool {
	told, err := s.queueReport(ctx)
	stuck := s.stuck(err)
	s.Meter.reportsStuck(s.name(), stuck != "")
	if stuck == "" {
		s.warnOfReport(err)
	} else {
		s.WakeBy(s.Began.Add(s.Sync.GetRetryInterval()))
	}
	s.noteReported(stuck)
	return told
}

// reportHistory queries which commits the revision added, and reports on them.
func (s *Step) reportHistory(ctx context.Context) {
	if s.nothingToReport() {
		return // the status was older than the reconcile knew
	}
	s.requestHistory(ctx)
	_, err := s.queueReport(ctx)
	s.warnOfReport(err)
	s.WakeBy(s.Began) // the next reconcile shows in the status what was reported
}

func (s *Step) warnOfReport(err error) {
	if err != nil {
		s.Warn(v1alpha1.ReasonReportFailed, fmt.Sprintf("commit status: %v", err))
		s.WakeBy(s.Began.Add(s.Sync.GetRetryInterval()))
	}
}

// queueReport queues the verdict, and returns false if the commits to report on are unknown.
func (s *Step) queueReport(ctx context.Context) (bool, error) {
	v, says := s.commitVerdict()
	if s.nothingToReport() || says == nothing {
		return true, nil
	}
	head, err := s.Reports.Head(ctx, s.Sync)
	if err != nil || s.Unfetched != nil && head != s.Commit {
		return true, err
	}
	update := report.Update{
		Hosts:       s.hosts(),
		Context:     s.statusContext(),
		Fallback:    s.contextIn(s.Sync.Namespace),
		Head:        s.Commit,
		State:       v.CommitState(),
		Description: s.pacedText(v),
		Inputs:      s.inputs(),
		From:        s.Before.Status.LastAppliedInputs,
		Started:     s.started(),
		Before:      s.changed(),
		Now:         s.contents(),
		Refused:     s.refused(v),
		Ended:       s.ended(v),
		Settled:     s.settled,
		Reverted:    s.reverted(),
		Progress:    s.lastProgress(),
		Left:        s.notReplaced(),
		Waits:       s.commitWaits(),
		Retry:       s.Sync.Status.LastHandledReconcileAt != s.Before.Status.LastHandledReconcileAt,
		At:          s.Began,
	}
	if head != s.Commit {
		commits, known := s.commits(ctx)
		if !known {
			return false, nil
		}
		update.Commits = commits
	}
	var errs []error
	if says == everything {
		errs = append(errs, s.Reports.Record(ctx, s.Sync, update))
		if applied, known := s.reportApplied(update, v); known {
			errs = append(errs, s.Reports.Record(ctx, s.Sync, applied))
		}
	}
	if drift, known := s.reportDrift(update); known {
		errs = append(errs, s.Reports.Record(ctx, s.Sync, drift))
	}
	return true, errors.Join(errs...)
}

// nothingToReport reports whether the reconcile is about no commit that is reported on.
func (s *Step) nothingToReport() bool {
	nobody := len(s.Sync.Spec.Report) == 0 && len(s.Sync.Status.Reported) == 0
	return s.Commit == "" || s.Suspended || s.Elsewhere || s.superseded() || nobody
}

// extent is how much a reconcile reports of its commit.
type extent int

const (
	nothing extent = iota
	onlyDrift
	everything
)

// commitVerdict returns the verdict on the commit, and how much of it is reported. If only the Git host is unavailable,
// the reconcile has still compared the cluster with the last commit: problems are reported, and a success is not, as
// there may be a newer commit.
func (s *Step) commitVerdict() (Verdict, extent) {
	switch looked := s.SawRollout && s.Drifts != nil && s.Fault == nil; {
	case !s.KeepsCommitStatus():
		return s.Verdict(), everything
	case s.Unfetched == nil || !looked || s.Unverified != nil || s.openCollision() != "" || s.serverUnavailable():
		return Verdict{}, nothing
	}
	if v := s.foundVerdict(); v.CommitState() != report.Success {
		return v, everything
	}
	return Verdict{}, onlyDrift
}

// KeepsCommitStatus reports whether the reconcile did not complete because a Git host is unreachable, or the API
// server is busy or unavailable. The previous commit status stays: a failure would be final.
func (s *Step) KeepsCommitStatus() bool {
	for _, err := range []error{s.Unfetched, s.Unverified} {
		if f := fault.Classify(err); f != nil && f.Class == fault.Transient {
			return true
		}
	}
	return s.serverUnavailable()
}

// serverUnavailable reports whether the API server was busy or unavailable.
func (s *Step) serverUnavailable() bool {
	return slices.ContainsFunc([]*fault.Error{s.Fault, fault.Classify(s.Unwritten)}, func(f *fault.Error) bool {
		return f != nil && (f.Reason == v1alpha1.ReasonAPIServerBusy || f.Reason == v1alpha1.ReasonAPIServerUnavailable)
	})
}

// hosts returns those to report to, each with the page that a status links to.
func (s *Step) hosts() []report.Target {
	var hosts []report.Target
	for _, to := range s.Sync.Spec.Report {
		host := report.HostOf(s.Sync, to)
		hosts = append(hosts, report.Target{Host: host, Page: s.linkOf(to, host.URL, s.Commit)})
	}
	return hosts
}

// linkOf returns where a status on a commit links to: the NodeSync's targetURL, the daemon's page, or the folder of
// definitions on the host.
func (s *Step) linkOf(to v1alpha1.Report, repository, commit string) string {
	page := ""
	if s.PageURL != "" {
		page = strings.TrimSuffix(s.PageURL, "/") + "/nodesyncs/" + s.Sync.Name
	}
	return cmp.Or(to.TargetURL, page, report.Page(to.Provider, repository, commit, s.Sync.Spec.Path))
}

// statusContext is empty while the cluster's name is unknown.
func (s *Step) statusContext() string {
	if s.Cluster == "" {
		return ""
	}
	return s.contextIn(s.Cluster)
}

func (s *Step) contextIn(cluster string) string { return report.ContextOf(cluster, s.Sync.Name) }

// stuck returns why the queue cannot be stored until a person acts; empty if it can.
func (s *Step) stuck(err error) string {
	var stuck *configmap.StuckError
	if !errors.As(err, &stuck) {
		return ""
	}
	return s.Memory.Hide("commit statuses are not posted: " + stuck.Error())
}

// noteReported shows in the status what was reported, and sends events for new failures. If the queue is stuck, each
// host waits, including those that have never received a status.
func (s *Step) noteReported(stuck string) {
	list, known := s.Reports.Reported(s.Sync)
	if !known && stuck == "" {
		return
	}
	if !known {
		list = slices.Clone(s.Sync.Status.Reported)
	}
	for i := range list {
		list[i].Failure = s.Memory.Hide(list[i].Failure)
	}
	if stuck != "" {
		list = s.stuckReports(list, stuck)
	}
	for _, r := range list {
		told := slices.ContainsFunc(s.Before.Status.Reported, func(before v1alpha1.Reported) bool {
			return before.Provider == r.Provider && before.URL == r.URL && before.Failure == r.Failure
		})
		if r.Failure != "" && !told {
			s.Warn(v1alpha1.ReasonReportFailed, r.Failure)
		}
	}
	s.Sync.Status.Reported = list
}

// stuckReports records for each host of spec.report why it receives nothing.
func (s *Step) stuckReports(list []v1alpha1.Reported, why string) []v1alpha1.Reported {
	for _, host := range s.hosts() {
		there := slices.ContainsFunc(list, func(r v1alpha1.Reported) bool { return r.Provider == host.Provider && r.URL == host.URL })
		if !there {
			state := s.Verdict().CommitState()
			list = append(list, v1alpha1.Reported{
				Provider: host.Provider, URL: host.URL, Context: cmp.Or(s.statusContext(), s.contextIn(s.Sync.Namespace)), Commit: s.Commit,
				State: string(state),
			})
		}
	}
	for i := range list {
		list[i].Failure = why
	}
	return list
}

// finalStatusEvery is how often plumbline checks whether the hosts have received the final status.
const finalStatusEvery = time.Second

// postFinalStatus reports the outcome of a deletion to the Git hosts before the finalizer is removed: the queue is
// deleted with the NodeSync, and a commit would stay pending for ever. It waits no longer than
// queue.FinalStatusPatience, and failures block nothing.
func (s *Step) postFinalStatus(ctx context.Context) {
	if !s.Finished {
		return
	}
	nodes := "its objects are no longer managed; their nodes keep running"
	if s.Sync.Spec.OnDelete == v1alpha1.OnDeleteDrain {
		nodes = "none of its nodes is left"
	}
	done, err := s.Reports.PostFinalStatus(ctx, s.Sync, report.FinalStatus{
		Description: "NodeSync deleted; " + nodes, Unapplied: "NodeSync deleted before all of this commit was applied; " + nodes,
		Page: s.pageOf, At: s.Began,
	})
	if err != nil {
		s.Warn(v1alpha1.ReasonReportFailed, fmt.Sprintf("the last commit status: %v", err))
		return
	}
	if done {
		return
	}
	s.Finished = false
	s.Sync.Finalizers = slices.Clone(s.Before.Finalizers)
	s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return n.Reason == v1alpha1.ReasonDeleted })
	s.Wait("commit statuses", fmt.Sprintf("posting the result of the deletion to the Git hosts, for %s at most", report.FinalStatusPatience))
	s.WakeBy(s.Began.Add(finalStatusEvery))
}

// pageOf returns the page that a status on a commit links to.
func (s *Step) pageOf(h report.Host, commit string) string {
	for _, to := range s.Sync.Spec.Report {
		if to.Provider == h.Provider && report.Clean(cmp.Or(to.URL, s.Sync.Spec.Source.Repository())) == h.URL {
			return s.linkOf(to, h.URL, commit)
		}
	}
	return ""
}

// History is the history of the branch, for commit statuses.
type History interface {
	// Known lists the commits since the applied one that changed an input, the newest first, if they are known without
	// a query.
	Known(ctx context.Context, applied string) (commits []string, known bool)
	// Ask queries the Git host for them.
	Ask(ctx context.Context, applied string) ([]string, error)
}

// history is which commits a revision added.
type history struct {
	head    string
	commits []string
}

// commits returns those that the revision added and that changed an input, the newest first. If there is none, the
// verdict is reported only on HEAD. Unknown commits must be queried, once for each revision.
func (s *Step) commits(ctx context.Context) (commits []string, known bool) {
	if last := s.Memory.history; last.head == s.Commit {
		return last.commits, true
	}
	applied := render.CommitOf(s.Before.Status.LastAppliedRevision)
	if applied == "" || applied == s.Commit {
		known = true
	} else {
		commits, known = s.History.Known(ctx, applied)
	}
	if known {
		s.Memory.history = history{head: s.Commit, commits: commits}
	}
	return commits, known
}

// requestHistory queries the commits that the revision added. If that fails, the verdict is reported only on HEAD.
func (s *Step) requestHistory(ctx context.Context) {
	applied := render.CommitOf(s.Before.Status.LastAppliedRevision)
	commits, err := s.History.Ask(ctx, applied)
	s.Memory.hidden.addCredentials(s.Memory.read) // the query may have read one
	if err != nil {
		s.Warn(v1alpha1.ReasonHistoryUnknown,
			fmt.Sprintf("the commit status goes only to %s: find the commits since %s: %v", render.ShortRevision(s.Revision), applied, err))
	}
	s.Memory.history = history{head: s.Commit, commits: commits}
}

// standInKey is the key of a stand-in's message.
const standInKey = "message"

// standIn is the ConfigMap that reports, if the NodeSync can be neither written nor annotated, that its status is that
// of an earlier reconcile. It is deleted with the NodeSync.
func standIn(sync *v1alpha1.NodeSync) *corev1.ConfigMap {
	return configmap.New(sync, v1alpha1.ObjectName("plumbline.status-not-written-", sync.Name))
}

// StandIn reads why the status of a NodeSync is that of an earlier reconcile, if the NodeSync itself could not be
// annotated with it; empty if the status is current.
func StandIn(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) (string, error) {
	object := standIn(sync)
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err != nil || !metav1.IsControlledBy(object, sync) {
		return "", client.IgnoreNotFound(err)
	}
	return object.Data[standInKey], nil
}

// writeStandIn creates the stand-in, or updates it if its message differs.
func (s *Step) writeStandIn(ctx context.Context, message string) error {
	if s.Memory.standIn.known && s.Memory.standIn.message == message {
		return nil
	}
	object := standIn(s.Sync)
	object.Data = map[string]string{standInKey: message}
	err := s.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		err = s.rewriteStandIn(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
	}
	s.Memory.standIn = standInMemory{known: true, message: message}
	return nil
}

// rewriteStandIn updates the existing one, unless another client has created it.
func (s *Step) rewriteStandIn(ctx context.Context, next *corev1.ConfigMap) error {
	last := &corev1.ConfigMap{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(next), last); err != nil {
		return err
	}
	if !metav1.IsControlledBy(last, s.Sync) {
		return fmt.Errorf("it is in the way, and does not belong to NodeSync %s; delete or rename it", s.Sync.Name)
	}
	last.Data = next.Data
	return s.Client.Update(ctx, last)
}

// dropStandIn deletes it once the NodeSync itself is up to date. The next reconcile retries failures.
func (s *Step) dropStandIn(ctx context.Context) {
	last := &s.Memory.standIn
	if !last.known {
		message, err := StandIn(ctx, s.Client, s.Sync)
		if err != nil {
			return
		}
		*last = standInMemory{known: true, message: message}
	}
	if last.message != "" && client.IgnoreNotFound(s.Client.Delete(ctx, standIn(s.Sync))) == nil {
		last.message = ""
	}
}

// standInMemory is the message of the stand-in, once that was read.
type standInMemory struct {
	known   bool
	message string
}
