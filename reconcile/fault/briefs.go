package fault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/calendar"
	"github.com/plumbline-dev/plumbline/reconcile/plan/rules"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// shortener makes the Brief of an error of one type.
type shortener func(error) (Brief, bool)

// of shortens the errors of one type. It looks at the error itself: what it is
// wrapped in has been looked at before.
func of[T error](brief func(T) Brief) shortener {
	return func(err error) (Brief, bool) {
		typed, ok := any(err).(T)
		if !ok {
			return Brief{}, false
		}
		return brief(typed), true
	}
}

// briefs is the one place that says how errors are shortened whose message would be
// cut before its reason.
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
			return inFile(e[0], len(e)-1)
		}),
		of(func(e *source.SymlinkError) Brief {
			return Brief{What: fmt.Sprintf("symlink %s %s", e.Name, e.Reason), Where: "to " + e.Target}
		}),
		of(func(e *plan.MissingClassError) Brief {
			return Brief{What: fmt.Sprintf("%s names %s, which is neither in Git nor in the cluster", e.Ref, e.Class), Where: e.Origin.String()}
		}),
		of(func(e *plan.RefusedError) Brief {
			what := fmt.Sprintf("%s: %s", e.Ref, firstOf(e.Problems))
			if e.Immutable {
				what += ": it needs a new name"
			}
			return Brief{What: what, Where: e.Origin.String()}
		}),
		of(func(e *rules.DeniedError) Brief { return Brief{What: e.What() + ": " + e.Message} }),
		of(func(e *rules.InvalidError) Brief { return Brief{What: e.What(), Cause: e.Problem} }),
		of(func(e *calendar.InvalidError) Brief { return Brief{What: e.Field, Cause: e.Problem} }),
	}
}

// kustomizeFails is how render begins the message of a build that failed.
const kustomizeFails = "kustomize cannot build it: "

// inFile is the first of several errors of files.
func inFile(e render.Error, more int) Brief {
	b := Brief{What: e.Message, Where: render.Origin{File: e.File, Line: e.Line}.String()}
	if cause, fails := strings.CutPrefix(e.Message, kustomizeFails); fails {
		b.What, b.Cause = "kustomize cannot build it", cause
	}
	if more > 0 {
		b.Where += fmt.Sprintf(", and %d more", more)
	}
	return b
}

func briefsOfSources() []shortener {
	return []shortener{
		of(func(e *source.URLError) Brief {
			return Brief{What: "the source's url " + e.Reason, Where: repository(e.URL)}
		}),
		of(func(e *source.AuthError) Brief {
			if e.Anonymous {
				return Brief{What: "the Git host wants credentials: name a Secret in spec.source.git.secretRef", Where: repository(e.URL)}
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

// fetched is the message of a fetch that failed, without what it begins with.
func fetched(err error, url string) Brief {
	return Brief{What: strings.TrimPrefix(err.Error(), "fetch "+url+": "), Where: repository(url)}
}

// repository is a URL as people name it: without the scheme.
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
			return Brief{What: fmt.Sprintf("chart %s %s: %s is a hook of Helm, and Karpenter's charts have none", e.Chart, e.Version, e.File)}
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
		of(func(e *charts.DigestError) Brief { return pulled(e.Chart, e.Ref, "is not what its digest says", e.Err) }),
		of(func(e *charts.UnsignedError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s has no signature by a key of secret %s", e.Chart, e.Ref.Version, e.Secret), Cause: e.Reason}
		}),
		of(func(e *charts.PinnedError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s has digest %s, and digests.%s in plumbline.yaml pins %s", e.Chart, e.Ref.Version, shortDigest(e.Found), e.Chart, shortDigest(e.Pinned))}
		}),
		of(moved),
		of(func(e *karpenter.UntestedError) Brief {
			return Brief{What: fmt.Sprintf("%s is not in the tables: use a newer plumbline, or acceptUntested", strings.Join(e.Names, ", ")), Cause: firstOf(e.Unknown)}
		}),
		of(heavy),
		of(func(e *charts.MalformedError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s cannot be used", e.Chart, e.Version), Cause: e.Err.Error()}
		}),
		of(func(e *charts.RenderError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s does not render with these values", e.Chart, e.Version), Cause: e.Err.Error()}
		}),
		of(func(e *release.RejectedError) Brief {
			return Brief{What: "the API server rejects what the chart renders to", Cause: firstOf(e.Rejections)}
		}),
		of(func(e *release.ForbiddenError) Brief {
			return Brief{What: "ClusterRole plumbline-charts lacks rules for the chart", Cause: firstOf(e.Refusals)}
		}),
		of(func(e *survey.ForeignObjectsError) Brief {
			return Brief{What: firstOf(e.Objects) + ": not made by this helm release, and not adopted"}
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
			return Brief{What: firstOf(e.Objects) + ": being deleted, and created again once gone"}
		}),
		of(func(e *charts.ForeignCRDsError) Brief {
			return Brief{What: fmt.Sprintf("chart %s %s has CRDs that are not Karpenter's: %s", charts.CRDChart, e.Version, firstOf(e.Names))}
		}),
	}
}

func moved(e *charts.MovedError) Brief {
	return Brief{What: fmt.Sprintf("chart %s %s that is installed (%s) is not in the repository any more", e.Chart, e.Ref.Version, shortDigest(e.InForce)), Where: repository(e.Ref.Repository)}
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

// shortDigest is as much of a digest as tells it from another.
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
			return Brief{What: fmt.Sprintf("%s: webhook %s gives no answer", e.Ref, e.Webhook), Cause: e.Err.Error()}
		}),
		of(func(e *apply.MutatedError) Brief {
			return Brief{What: fmt.Sprintf("%s: a mutating webhook or policy changes it", e.Ref), Cause: e.Changes()}
		}),
		of(func(e *apply.FoughtError) Brief {
			return Brief{What: fmt.Sprintf("%s: reverted %d times within an hour; correction is paused", e.Ref, e.Times), Cause: e.Changes()}
		}),
		of(func(e *apply.NotServedError) Brief {
			return Brief{What: fmt.Sprintf("%s: the API server does not serve its kind: install the karpenter-crd chart", e.Ref)}
		}),
	}
}

// ofRefusals names the first thing that may not come from Git, and the field of the
// NodeSync that would allow it.
func ofRefusals(refusals []allowance.Refusal) Brief {
	if len(refusals) == 0 {
		return Brief{What: "refused"}
	}
	first, more := refusals[0], ""
	if len(refusals) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(refusals)-1)
	}
	if first.Field == "" {
		return Brief{What: first.What + " " + first.Why + more}
	}
	return Brief{What: fmt.Sprintf("%s may not come from Git%s: see %s", first.What, more, first.Field)}
}

// firstOf is the first of several, and how many more there are.
func firstOf(all []string) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more)", all[0], len(all)-1)
}
