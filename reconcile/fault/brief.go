package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// MaxBrief is the maximum length of a Brief, in characters: Git hosts accept no more in a commit status.
const MaxBrief = 140

// maxWhere is the length of the place that a truncated Brief keeps: the names of the file and its folder.
const maxWhere = 40

// Brief is an error for a commit status: the object and the reason come first.
type Brief struct {
	// What contains the object and the reason.
	What string
	// Cause is the message of another program. If it is too long, its middle is omitted: such texts start with the
	// place and end with the reason.
	Cause string
	// Then is what a person does about it, such as the digest to approve. It is never truncated.
	Then string
	// Where is the place in the repository: file and line.
	Where string
}

// String returns one line of at most MaxBrief characters.
func (b Brief) String() string {
	what, cause, where, then := oneLine(b.What), oneLine(b.Cause), oneLine(b.Where), oneLine(b.Then)
	if cause != "" {
		what += ": "
	}
	if then != "" {
		then = "; " + then
	}
	if whole := what + cause + then + within(where); runes(whole) <= MaxBrief {
		return whole
	}
	end := then + within(tail(where))
	room := MaxBrief - runes(end)
	if left := room - runes(what); cause != "" && left >= minCause {
		return what + elide(cause, left) + end
	}
	return cut(what+cause, room) + end
}

// minCause is the minimum room for a Cause: below it, its two ends would be useless.
const minCause = 30

// Map returns the Brief with each of its texts changed.
func (b Brief) Map(change func(string) string) Brief {
	return Brief{What: change(b.What), Cause: change(b.Cause), Then: change(b.Then), Where: change(b.Where)}
}

// Brief returns the error for a commit status.
func (e *Error) Brief() Brief { return BriefOf(e) }

// BriefOf shortens an error: by its type if the table has it, otherwise to its message. For joined errors, it returns
// the most severe, and the number of the others.
func BriefOf(err error) Brief {
	for at := err; at != nil; at = errors.Unwrap(at) {
		if b, ok := briefOf(at); ok {
			return b
		}
		if joined, ok := at.(interface{ Unwrap() []error }); ok {
			return briefOfSeveral(joined.Unwrap())
		}
	}
	if err == nil {
		return Brief{}
	}
	message := err.Error()
	if words := notAllowed(message); words != "" {
		return Brief{What: words}
	}
	if words := conversion(message); words != "" {
		return Brief{What: words}
	}
	return plain(err)
}

// maxPrefix limits the length of a wrapping text that is kept.
const maxPrefix = 75

// plain returns the message of an error. If it is too long, the wrapping text is dropped, unless that is short enough
// to leave room for the cause.
func plain(err error) Brief {
	message, inner := oneLine(err.Error()), errors.Unwrap(err)
	if runes(message) <= MaxBrief || inner == nil {
		return Brief{What: message}
	}
	cause := oneLine(inner.Error())
	prefix, wraps := strings.CutSuffix(message, cause)
	prefix = strings.TrimSuffix(prefix, ": ")
	switch {
	case !wraps:
		return Brief{What: message}
	case prefix != "" && runes(prefix) <= maxPrefix:
		return Brief{What: prefix, Cause: cause}
	}
	return plain(inner)
}

func briefOf(err error) (Brief, bool) {
	for _, of := range briefs() {
		if b, ok := of(err); ok {
			return b, true
		}
	}
	return Brief{}, false
}

func briefOfSeveral(errs []error) Brief {
	worst := mostSevere(errs)
	if worst == nil {
		return Brief{}
	}
	b := BriefOf(worst)
	n := 0
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	b.Where = strings.TrimPrefix(b.Where+shortlist.More(", ", n-1), ", ")
	return b
}

func within(where string) string {
	if where == "" {
		return ""
	}
	return " (" + where + ")"
}

// tail returns the end of a path.
func tail(where string) string {
	all := []rune(where)
	if len(all) <= maxWhere {
		return where
	}
	end := string(all[len(all)-maxWhere+1:])
	if i := strings.IndexByte(end, '/'); i >= 0 {
		end = end[i:]
	}
	return "…" + end
}

// oneLine removes control characters, including those that change the direction or the order of text: a commit status
// is also read in terminals.
func oneLine(text string) string {
	plain := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r) {
			return utf8.RuneError
		}
		return r
	}, text)
	return strings.Join(strings.Fields(plain), " ")
}

func runes(text string) int { return utf8.RuneCountInString(text) }

// cut shortens a text at its end, after a whole word if there is one in the last third.
func cut(text string, limit int) string {
	if runes(text) <= limit {
		return text
	}
	short := string([]rune(text)[:limit-1])
	if i := strings.LastIndexByte(short, ' '); i > len(short)*2/3 {
		short = short[:i]
	}
	return strings.TrimRight(short, " :;,") + "…"
}

// elide omits the middle of a text.
func elide(text string, limit int) string {
	if runes(text) <= limit {
		return text
	}
	all := []rune(text)
	head := limit / 3
	tail := limit - head - 3
	return strings.TrimRight(string(all[:head]), " ") + " … " + strings.TrimLeft(string(all[len(all)-tail:]), " ")
}

// shortener returns the Brief of an error of one type.
type shortener func(error) (Brief, bool)

// of shortens the errors of one type. It does not unwrap: the wrapping errors were checked before.
func of[T error](brief func(T) Brief) shortener {
	return func(err error) (Brief, bool) {
		typed, ok := any(err).(T)
		if !ok {
			return Brief{}, false
		}
		return brief(typed), true
	}
}

// briefs is the one place that defines how to shorten errors whose message would be truncated before its reason.
func briefs() []shortener {
	return slices.Concat(briefsOfCommits(), briefsOfSources(), briefsOfCharts(), briefsOfWrites(), []shortener{
		func(err error) (Brief, bool) {
			classified, ok := any(err).(*Error)
			if !ok || classified.Short == nil {
				return Brief{}, false
			}
			return *classified.Short, true
		},
	})
}

func briefsOfCommits() []shortener {
	return []shortener{
		of(func(e render.Error) Brief { return inFile(e, 0) }),
		of(func(e render.Errors) Brief {
			if len(e) == 0 {
				return Brief{What: e.Error()}
			}
			return inFile(e.Distinct()[0], len(e)-1)
		}),
		of(func(e *source.SymlinkError) Brief {
			return Brief{What: fmt.Sprintf("symlink %s %s", e.Name, e.Reason), Where: "to " + e.Target}
		}),
		of(func(e *plan.MissingClassError) Brief {
			return Brief{What: fmt.Sprintf("%s references %s, which is neither in Git nor in the cluster", e.Ref, e.Class), Where: e.Origin.String()}
		}),
		of(func(e *plan.RefusedError) Brief {
			what := fmt.Sprintf("%s: %s", e.Ref, firstOf(e.Problems))
			if e.Immutable {
				what += ": it needs a new name"
			}
			return Brief{What: what, Where: e.Origin.String()}
		}),
		of(func(e *plan.PolicyDeniedError) Brief { return Brief{What: e.What() + ": " + e.Message} }),
		of(func(e *plan.InvalidPolicyError) Brief { return Brief{What: e.What(), Cause: e.Problem} }),
		of(func(e *plan.InvalidCalendarError) Brief { return Brief{What: e.Field, Cause: e.Problem} }),
	}
}

// kustomizeFails is the prefix of render's message for a failed build.
const kustomizeFails = "kustomize cannot build it: "

// inFile returns the Brief of the first of several errors in files.
func inFile(e render.Error, more int) Brief {
	b := Brief{What: e.Message, Where: render.Origin{File: e.File, Line: e.Line}.String()}
	if cause, fails := strings.CutPrefix(e.Message, kustomizeFails); fails {
		b.What, b.Cause = "kustomize cannot build it", cause
	}
	b.Where += shortlist.More(", ", more)
	return b
}

func briefsOfSources() []shortener {
	return []shortener{
		of(func(e *source.URLError) Brief {
			return Brief{What: "the source's url " + e.Reason, Where: repository(e.URL)}
		}),
		of(func(e *source.AuthError) Brief {
			if e.Anonymous {
				return Brief{What: "the Git host requires credentials: set a Secret in spec.source.git.secretRef", Where: repository(e.URL)}
			}
			return Brief{What: "the Git host refuses the credentials", Cause: e.Err.Error(), Where: repository(e.URL)}
		}),
		of(func(e *source.CertificateError) Brief {
			return Brief{What: "the Git host's certificate is not trusted", Cause: e.Err.Error(), Where: repository(e.URL)}
		}),
		of(func(e *source.UnreachableError) Brief {
			if e.Timeout {
				return Brief{What: "the Git host did not answer within spec.timeout", Where: repository(e.URL)}
			}
			return Brief{What: "the Git host cannot be reached", Cause: e.Err.Error(), Where: repository(e.URL)}
		}),
		of(func(e *source.NotFoundError) Brief { return fetched(e, e.URL) }),
		of(func(e *source.FluxRefError) Brief {
			return Brief{What: "the source of Flux " + e.Problem, Where: e.Ref}
		}),
		of(func(e *source.ArtifactError) Brief {
			brief := Brief{What: "the source of Flux " + e.Problem, Where: e.Of}
			if e.Err != nil {
				brief.Cause = e.Err.Error()
			}
			return brief
		}),
		of(func(e *source.HostKeyError) Brief { return fetched(e, e.URL) }),
		of(func(e *source.MissingError) Brief { return fetched(e, e.URL) }),
		of(func(e *signature.Error) Brief { return Brief{What: e.Object + " " + e.Problem} }),
		of(func(e *source.HistoryError) Brief { return Brief{What: e.Error()} }),
	}
}

// fetched returns the message of a failed fetch, without its prefix.
func fetched(err error, url string) Brief {
	return Brief{What: strings.TrimPrefix(err.Error(), "fetch "+url+": "), Where: repository(url)}
}

// repository returns a URL without the scheme.
func repository(url string) string {
	if _, after, found := strings.Cut(url, "://"); found {
		url = after
	}
	return strings.TrimSuffix(url, ".git")
}

func briefsOfCharts() []shortener {
	return []shortener{
		of(func(e *allowance.RefusedError) Brief { return ofRefusals(e.Refusals) }),
		of(func(e *charts.HookError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s: %s is a Helm hook, and Karpenter's charts have none", e.Chart, e.Version, e.File)}
		}),
		of(func(e *charts.AuthError) Brief {
			what := fmt.Sprintf("chart %s %s: %s refuses access without credentials", e.Chart, e.Ref.Version, e.Host)
			if e.Origin != "" {
				what = fmt.Sprintf("chart %s %s: %s refuses the credentials of %s", e.Chart, e.Ref.Version, e.Host, e.Origin)
			}
			return Brief{What: what, Cause: e.Err.Error()}
		}),
		of(func(e *charts.UnreachableError) Brief { return pulled(e.Chart, e.Ref, "cannot be pulled", e.Err) }),
		of(func(e *charts.CertificateError) Brief {
			return pulled(e.Chart, e.Ref, "the registry's certificate is not trusted", e.Err)
		}),
		of(func(e *charts.DigestError) Brief { return pulled(e.Chart, e.Ref, "does not match its digest", e.Err) }),
		of(func(e *charts.UnsignedError) Brief {
			return Brief{
				What: fmt.Sprintf("chart %s %s has no signature from a key in secret %s", e.Chart, e.Ref.Version, e.Secret), Cause: e.Reason,
			}
		}),
		of(func(e *charts.PinnedError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s has digest %s, and digests.%s in plumbline.yaml pins %s",
				e.Chart, e.Ref.Version, shortDigest(e.Found), e.Chart, shortDigest(e.Pinned))}
		}),
		of(moved),
		of(untested), of(unfit), of(missingRights), of(unreadRights),
		of(heavy),
		of(func(e *charts.MalformedError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s cannot be used", e.Chart, e.Version), Cause: e.Err.Error()}
		}),
		of(func(e *charts.RenderError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s does not render with these values", e.Chart, e.Version), Cause: e.Err.Error()}
		}),
		of(func(e *release.RejectedError) Brief {
			return Brief{What: "the API server rejects the rendered chart", Cause: firstOf(e.Rejections)}
		}),
		of(func(e *release.ForbiddenError) Brief {
			return Brief{What: "ClusterRole plumbline-charts is missing rules for the chart", Cause: firstOf(e.Refusals)}
		}),
		of(func(e *survey.ForeignObjectsError) Brief {
			return Brief{What: firstOf(e.Objects) + ": not created by this Helm release, and not adopted"}
		}),
		of(func(e *survey.ReconciledError) Brief {
			return Brief{What: fmt.Sprintf("%s reconciles %s: set management: External, or have it release them", e.Owner, firstOf(e.Objects))}
		}),
		of(func(e *release.DroppedCRDsError) Brief {
			return Brief{What: fmt.Sprintf("the chart leaves out crd %s: Helm would delete it, and every node with it", firstOf(e.Names))}
		}),
		of(func(e *release.UnprotectedCRDsError) Brief {
			return Brief{What: fmt.Sprintf("the chart renders crd %s without helm.sh/resource-policy: keep: use a newer version", firstOf(e.Names))}
		}),
		of(func(e *release.TerminatingError) Brief {
			return Brief{What: firstOf(e.Objects) + ": terminating, recreated once deleted"}
		}),
		of(func(e *charts.ForeignCRDsError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s has CRDs that are not Karpenter's: %s", charts.CRDChart, e.Version, firstOf(e.Names))}
		}),
	}
}

func unfit(e *karpenter.ServedCRDsError) Brief {
	return Brief{What: fmt.Sprintf("karpenter %s does not fit the CRDs of EKS: use a version that fits", e.Version), Cause: firstOf(e.Fields)}
}

func missingRights(e *iam.MissingError) Brief {
	return Brief{What: fmt.Sprintf("Karpenter's role does not allow %s, which %s needs", firstOf(e.Actions()), e.Version)}
}

func unreadRights(e *iam.UnreadError) Brief {
	return Brief{
		What: fmt.Sprintf("unknown whether Karpenter's role allows %s: set acceptUnread: iam if it does", firstOf(e.Actions)), Cause: e.Reason,
	}
}

func untested(e *karpenter.UntestedError) Brief {
	what := "is not tested with this plumbline: use a newer one, or set acceptUntested"
	if e.Unreleased {
		what = "is not a release of upstream: use one, or set acceptUntested"
	}
	return Brief{What: strings.Join(e.Names, ", ") + " " + what, Cause: firstOf(e.Unknown)}
}

func moved(e *charts.MovedError) Brief {
	return Brief{
		What:  fmt.Sprintf("the installed chart %s %s (%s) is no longer in the repository", e.Chart, e.Ref.Version, shortDigest(e.InForce)),
		Where: repository(e.Ref.Repository),
	}
}

func heavy(e *schema.HeavyError) Brief {
	what := "patterns"
	if e.Defaults {
		what = "defaults"
	}
	return Brief{What: fmt.Sprintf("crd %s: its %s are too large", e.CRD, what), Cause: e.Path}
}

func pulled(chart string, ref charts.Ref, what string, err error) Brief {
	return Brief{What: fmt.Sprintf("chart %s %s %s", chart, ref.Version, what), Cause: err.Error(), Where: repository(ref.Repository)}
}

// shortDigest returns the first digits of a digest, which are enough to distinguish it.
func shortDigest(digest string) string {
	const digits = len("sha256:") + 12
	if len(digest) <= digits {
		return digest
	}
	return digest[:digits] + "…"
}

func briefsOfWrites() []shortener {
	return []shortener{
		of(func(e *apply.InvalidError) Brief {
			return Brief{What: fmt.Sprintf("%s: the API server refuses it: %s", e.Ref, firstOf(e.Problems))}
		}),
		of(func(e *apply.AdmissionError) Brief {
			by, reason := apply.Denied(e.Err)
			return Brief{What: fmt.Sprintf("%s: denied by %s", e.Ref, by), Cause: reason}
		}),
		of(func(e *apply.WebhookError) Brief {
			return Brief{What: fmt.Sprintf("%s: webhook %s does not answer", e.Ref, e.Webhook), Cause: e.Err.Error()}
		}),
		of(func(e *apply.MutatedError) Brief {
			return Brief{What: fmt.Sprintf("%s: a mutating webhook or policy changes it", e.Ref), Cause: e.Changes()}
		}),
		of(func(e *apply.RepeatedRevertError) Brief {
			return Brief{What: fmt.Sprintf("%s: reverted %d times within an hour; correction is paused", e.Ref, e.Times), Cause: e.Changes()}
		}),
		of(func(e *apply.NotServedError) Brief {
			return Brief{What: fmt.Sprintf("%s: the API server does not serve its kind: install the karpenter-crd chart", e.Ref)}
		}),
	}
}

// ofRefusals returns the first thing that must not come from Git, and the field of the NodeSync that would allow it.
func ofRefusals(refusals []allowance.Refusal) Brief {
	if len(refusals) == 0 {
		return Brief{What: "refused"}
	}
	first, more := refusals[0], inBrackets(len(refusals)-1)
	if first.Field == "" {
		return Brief{What: first.What + " " + first.Why + more}
	}
	return Brief{What: fmt.Sprintf("%s must not come from Git%s: see %s", first.What, more, first.Field)}
}

// firstOf returns the first of several, and the number of the others.
func firstOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0] + inBrackets(len(all)-1)
}

// inBrackets returns the number of others, in brackets.
func inBrackets(more int) string {
	if more <= 0 {
		return ""
	}
	return shortlist.More(" (", more) + ")"
}
