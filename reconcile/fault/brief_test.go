package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// brief is an error with values of realistic length, and the words that a commit status must contain.
type brief struct {
	err   error
	words []string
}

const (
	longFile   = "clusters/production/eu-west-1/nodes/general-purpose.yaml"
	longRef    = "GitRepository/platform-engineering/fleet-configuration-of-all-production-clusters"
	longURL    = "https://git.internal.example.com/platform-engineering/kubernetes/fleet-configuration.git"
	longMirror = "oci://registry.internal.example.com/mirrors/public.ecr.aws/karpenter"
	longPool   = "general-purpose-arm64"
)

func longDigest(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

func briefsOfCommits() []brief {
	pool := render.Ref{Kind: render.NodePool, Name: "general-purpose-arm64"}
	class := render.Ref{Kind: render.EC2NodeClass, Name: "general-purpose-bottlerocket"}
	origin := render.Origin{File: longFile, Line: 17}
	const at = "(…/nodes/general-purpose.yaml:17)"
	unsupported := `NodePool/general-purpose-arm64: spec.template.spec.requirements[0].operator: Unsupported value: "Inn": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`
	kustomize := `kustomize cannot build it: accumulating resources: accumulation err='accumulating resources from '../../../base/general-purpose': read /clusters/base: no such directory': open general-purpose.yaml: no such file or directory`
	return []brief{
		{&plan.PolicyDeniedError{Policy: "little-spot-in-zone-a", Object: pool.String(), More: 2, Message: "more than 5 % of the nodes are spot in eu-west-1a"}, []string{"policy little-spot-in-zone-a denies " + pool.String() + " and 2 more: more than 5 %"}},
		{&plan.InvalidPolicyError{Policy: "little-spot-in-zone-a", Field: "expression", Problem: "1:10: undefined field 'chnages'"}, []string{"policy little-spot-in-zone-a: expression does not compile: 1:10: undefined field 'chnages'"}},
		{&plan.InvalidCalendarError{Field: "spec.guard.windows[0].timeZone", Problem: "unknown time zone Europe/Berln: use a name from the IANA database, for example Europe/Berlin"}, []string{"spec.guard.windows[0].timeZone: unknown time zone Europe/Berln"}},
		{render.Error{File: longFile, Line: 17, Message: unsupported}, []string{"NodePool/general-purpose-arm64: spec.template.spec.requirements[0].operator", at}},
		{render.Errors{{File: longFile, Line: 17, Message: unsupported}, {File: "z.yaml", Line: 1, Message: "odd"}}, []string{"NodePool/general-purpose-arm64: spec", "requirements[0]"}},
		{render.Errors{{File: "prod/a.yaml", Line: 17, Message: "NodePool/a: unknown field spec.limit"}, {File: "z.yaml", Line: 1}}, []string{"NodePool/a: unknown field spec.limit (prod/a.yaml:17, and 1 more)"}},
		{render.Errors{{File: "prod/kustomization.yaml", Message: kustomize}}, []string{"kustomize cannot build it: accumulating", "no such file or directory (prod/kustomization.yaml)"}},
		{&render.SlowError{Path: "./clusters/production/eu-west-1", Limit: time.Minute}, []string{"to check the definitions below ./clusters/production/eu-west-1 takes more than 1m0s"}},
		{&render.MissingError{Path: "./clusters/production/eu-west-1", File: "clusters/production/eu-west-1/plumbline.yaml"}, []string{"clusters/production/eu-west-1/plumbline.yaml is not in the repository"}},
		{&render.EmptyError{Path: "./clusters/production/eu-west-1"}, []string{"holds no NodePool and no EC2NodeClass", "refused"}},
		{&source.SymlinkError{Name: longFile, Target: "../../../../etc/passwd", Reason: "leads out of the repository"}, []string{longFile + " leads out of the repository"}},
		{&plan.MissingClassError{Ref: pool, Class: class, Origin: origin}, []string{pool.String() + " references " + class.String() + ", which is neither"}},
		{&plan.RefusedError{Ref: pool, Origin: origin, Immutable: true, Problems: []string{`nodeClassRef.kind is immutable, "EC2NodeClass" cannot become "OtherNodeClass"`}}, []string{pool.String() + ": nodeClassRef.kind is immutable", at}},
		{&plan.RefusedError{Ref: pool, Origin: render.Origin{File: "a.yaml", Line: 3}, Problems: []string{"spec.weight: Invalid value: 101: must be at most 100", "spec.replicas: odd"}}, []string{"NodePool/general-purpose-arm64: spec.weight: Invalid value: 101: must be at most 100 (and 1 more) (a.yaml:3)"}},
		{&plan.ConflictError{Ref: pool, Owner: "plumbline-system.other"}, []string{"belongs to NodeSync plumbline-system.other: remove it"}},
		{&plan.ConflictError{Ref: pool, Tools: []string{"Flux", "Argo CD"}, Fields: []string{"spec.limits.cpu", "spec.template.spec.requirements", "spec.disruption.budgets"}}, []string{pool.String() + ": fields managed by Flux and Argo CD: spec.limits.cpu"}},
	}
}

func briefsOfSources() []brief {
	refused := errors.New("authentication required: Invalid username or token. Password authentication is not supported for Git operations")
	return []brief{
		{&source.URLError{URL: longURL, Reason: "is of a scheme that is not known"}, []string{"is of a scheme that is not known"}},
		{&source.FluxRefError{Ref: longRef, Problem: "does not exist: create it, or change spec.source.sourceRef"}, []string{"does not exist"}},
		{&source.ArtifactError{Of: longRef, Problem: "is not Ready: " + strings.Repeat("the host is away, ", 20)}, []string{"is not Ready: the host is away"}},
		{&source.RefError{Field: "semver", Value: ">= 1.0.0-rc.1 <", Err: errors.New("improper constraint: >= 1.0.0-rc.1 <")}, []string{"ref.semver", "improper constraint"}},
		{&source.AuthError{URL: longURL, Err: refused}, []string{"the Git host refuses the credentials: authentication", "Git operations"}},
		{&source.AuthError{URL: longURL, Anonymous: true, Err: refused}, []string{"the Git host requires credentials: set a Secret in spec.source.git.secretRef"}},
		{&source.NotFoundError{URL: longURL, What: "repository"}, []string{"the host has no such repository"}},
		{&source.NotFoundError{URL: longURL, What: "branch release-2026-11"}, []string{"the repository has no branch release-2026-11: push it, or change source.git.ref"}},
		{&source.UnreachableError{URL: longURL, Err: errors.New("dial tcp: lookup git.internal.example.com on 10.96.0.10:53: no such host")}, []string{"cannot be reached: dial tcp", "no such host"}},
		{&source.UnreachableError{URL: longURL, Timeout: true}, []string{"did not answer within spec.timeout"}},
		{&source.CertificateError{URL: longURL, Err: errors.New("x509: certificate signed by unknown authority")}, []string{"certificate is not trusted: x509: certificate signed by unknown authority"}},
		{&source.HostKeyError{URL: longURL, Host: "git.internal.example.com", Changed: true, Fingerprint: "SHA256:uNiVztksCsDhcc0u9e8BrQXVUpKZIDTMczCvj3tD2s"}, []string{"host key of git.internal.example.com has changed to SHA256:"}},
		{&source.LimitError{What: "the file " + longFile, Limit: 1 << 20}, []string{longFile + " is larger than the limit"}},
		{&source.SecretError{Key: "identity"}, []string{"identity"}},
		{&signature.Error{Object: "commit 1a2b3c4d5e6f", Problem: "is signed with OpenPGP key 5982D0279C227FFD, which is not in secret signers", Remedy: "sign it with one of the keys there"}, []string{"commit 1a2b3c4d5e6f is signed with OpenPGP key 5982D0279C227FFD, which is not in secret signers"}},
		{&signature.KeysError{Secret: "signers", Reason: "it has no entry"}, []string{"secret signers has no key of a signer: it has no entry"}},
		{&source.HistoryError{Since: "1a2b3c4d5e6f", Reason: "HEAD has another history"}, []string{"the commits since 1a2b3c4d cannot be listed: HEAD has another history"}},
		{&grant.RefusedError{Secret: "fleet-auth", Host: "git.internal.example.com", Reason: "its annotation plumbline.dev/hosts names github.com only: add the host there"}, []string{"secret fleet-auth is not used for git.internal.example.com: its annotation"}},
	}
}

func briefsOfCharts() []brief {
	mirror := charts.Ref{Version: "1.14.1", Repository: "oci://registry.internal.example.com/mirrors/public.ecr.aws/karpenter"}
	unresolved := errors.New(`Get "https://registry.internal.example.com/v2/mirrors/public.ecr.aws/karpenter/manifests/1.14.1": dial tcp: lookup registry.internal.example.com on 10.96.0.10:53: no such host`)
	helm := errors.New(`execution error at (karpenter/templates/deployment.yaml:112:24): template: karpenter/templates/_helpers.tpl:41:8: executing "karpenter.image" at <.Values.controller.image.tag>: tag must not be empty`)
	crds := []string{"ec2nodeclasses.karpenter.k8s.aws", "nodeclaims.karpenter.sh", "nodepools.karpenter.sh"}
	return []brief{
		{&charts.UnreachableError{Ref: mirror, Chart: "karpenter-crd", Err: unresolved}, []string{"chart karpenter-crd 1.14.1 cannot be pulled: ", "no such host"}},
		{&charts.InvalidRefError{Ref: mirror, Reason: "repository has no scheme"}, []string{"repository has no scheme"}},
		{&charts.NotFoundError{Ref: mirror, Chart: "karpenter", Near: []string{"1.14.0", "1.13.1"}}, []string{"chart karpenter 1.14.1 is not in oci://registry"}},
		{&charts.AuthError{Ref: mirror, Chart: "karpenter", Host: "registry.internal.example.com", Origin: "secret mirror", Err: errors.New("unauthorized: authentication required")}, []string{"registry.internal.example.com refuses the credentials of secret mirror", "required"}},
		{&charts.AuthError{Ref: mirror, Chart: "karpenter", Host: "registry.internal.example.com", Err: errors.New("unauthorized")}, []string{"refuses access without credentials: unauthorized"}},
		{&charts.CertificateError{Ref: mirror, Chart: "karpenter", Err: errors.New("x509: certificate signed by unknown authority")}, []string{"certificate is not trusted", "unknown authority"}},
		{&charts.UnsignedError{Ref: mirror, Chart: "karpenter", Secret: "cosign", Digest: longDigest("a")}, []string{"chart karpenter", "has no signature from a key in secret cosign"}},
		{&charts.PinnedError{Ref: mirror, Chart: "karpenter", Found: longDigest("a"), Pinned: longDigest("b")}, []string{"has digest sha256:aaaaaaaaaaaa…", "digests.karpenter in plumbline.yaml pins sha256:bbbbbbbbbbbb…"}},
		{&charts.MovedError{Ref: mirror, Chart: "karpenter", Found: longDigest("a"), InForce: longDigest("b")}, []string{"the installed chart karpenter 1.14.1 (sha256:bbbbbbbbbbbb…) is no longer in the repository"}},
		{&charts.DigestError{Ref: mirror, Chart: "karpenter", Err: errors.New("want " + longDigest("a") + ", have " + longDigest("b"))}, []string{"chart karpenter 1.14.1 does not match its digest"}},
		{&schema.HeavyError{CRD: "capacitybuffers.autoscaling.x-k8s.io", Path: "v1: spec.template.metadata.labels.*.allOf[3]"}, []string{"crd capacitybuffers.autoscaling.x-k8s.io: its patterns are too large: v1: spec.template.metadata.labels.*.allOf[3]"}},
		{&charts.MalformedError{Chart: "karpenter", Version: "1.14.1", Err: unresolved}, []string{"chart karpenter 1.14.1 cannot be used: ", "no such host"}},
		{&charts.RenderError{Chart: "karpenter", Version: "1.14.1", Err: helm}, []string{"does not render with these values: ", "tag must not be empty"}},
		{&charts.SecretError{Key: "ca.crt", Reason: "holds no certificate in PEM"}, []string{"the key ca.crt holds no certificate"}},
		{&contradiction.Error{What: "values.settings.clusterName", Given: "staging", Field: "cluster.name", Want: "production", Why: strings.Repeat("long reason ", 20)}, []string{`values.settings.clusterName is "staging" and cluster.name is "production"`}},
		{&charts.ValuesError{Value: "settings.clusterName", Reason: "is no text"}, []string{"values.settings.clusterName is no text"}},
		{&charts.LayerError{Origin: "Secret/karpenter-values", Reason: "it is no YAML"}, []string{"values of Secret/karpenter-values: it is no YAML"}},
		{&survey.ForeignReleaseError{Release: "karpenter", Revision: 3}, []string{"Helm release karpenter", "is left unchanged"}},
		{&survey.ForeignObjectsError{Objects: []string{"ClusterRole/karpenter (nobody's)", "ClusterRoleBinding/karpenter (nobody's)", "Deployment/karpenter (nobody's)"}}, []string{"ClusterRole/karpenter (nobody's) (and 2 more): not created by this Helm release"}},
		{&survey.ReconciledError{Objects: []string{"HelmRelease/karpenter", "Deployment/karpenter"}}, []string{"reconciles HelmRelease/karpenter (and 1 more): set management: External"}},
		{&survey.ElsewhereError{Object: "deployment/karpenter in namespace karpenter", Namespace: "karpenter"}, []string{"deployment/karpenter in namespace karpenter", "already belongs to Karpenter"}},
		{&survey.OtherChartError{Release: "karpenter", Chart: "platform-addons"}, []string{"Helm release karpenter was made from chart platform-addons, which is not Karpenter's own"}},
		{&survey.NewerError{Runs: "1.14.1", Version: "1.8.6"}, []string{"karpenter 1.14.1 runs here", "CRDs are never downgraded"}},
		{&release.RejectedError{Rejections: []string{"Deployment/karpenter: spec.replicas: Invalid value: -1: must be greater than or equal to 0", "odd"}}, []string{"the API server rejects", "greater than or equal to 0 (and 1 more)"}},
		{&release.ForbiddenError{Refusals: []string{`ClusterRole/karpenter: {apiGroups: ["karpenter.k8s.aws"], resources: ["ec2nodeclasses/status"], verbs: ["patch", "update"]}`}}, []string{"ClusterRole plumbline-charts is missing rules", "ClusterRole/karpenter"}},
		{&release.DroppedCRDsError{Names: crds}, []string{"leaves out crd ec2nodeclasses.karpenter.k8s.aws (and 2 more): Helm would delete it, and every node"}},
		{&release.UnprotectedCRDsError{Names: crds}, []string{"without helm.sh/resource-policy: keep: use a newer version"}},
		{&charts.ForeignCRDsError{Version: "1.14.1", Names: []string{"widgets.example.com", "gadgets.example.com"}}, []string{"has CRDs that are not Karpenter's: widgets.example.com (and 1 more)"}},
		{&charts.LookupError{Chart: "karpenter", Version: "1.14.1", File: "karpenter/templates/deployment.yaml", Line: 112}, []string{"karpenter/templates/deployment.yaml, line 112, calls lookup"}},
		{&charts.HookError{Chart: "karpenter", Version: "1.14.1", File: "karpenter/templates/post-install.yaml"}, []string{"karpenter/templates/post-install.yaml is a Helm hook"}},
		{&allowance.RefusedError{Refusals: []allowance.Refusal{{What: "values.controller.extraVolumeMounts", Why: "gives the controller files of the node or of other objects", Field: "spec.charts.allow.values", Entry: "controller.extraVolumeMounts"}, {What: "b"}}}, []string{"values.controller.extraVolumeMounts must not come from Git (and 1 more): see spec.charts.allow.values"}},
		{&allowance.RefusedError{Refusals: []allowance.Refusal{{What: "CronJob nightly", Why: "is no object of Karpenter's charts"}}}, []string{"CronJob nightly is no object of Karpenter's charts"}},
		{&confine.LimitError{What: "the kustomization of ./clusters/production-eu-west-1/nodes", Limit: "20 s of processor time"}, []string{"the kustomization of ./clusters", "took more than 20 s of processor time"}},
		{&release.NoRevisionError{Release: "karpenter", Revision: 3}, []string{"revision 3 of Helm release karpenter no longer exists"}},
		{&release.TerminatingError{Objects: crds}, []string{"ec2nodeclasses.karpenter.k8s.aws (and 2 more): terminating"}},
		{&karpenter.KubernetesError{Karpenter: "1.8.6", Minor: 36, Use: "1.13.0"}, []string{"karpenter 1.8.6 knows kubernetes", "the cluster's is 1.36", "set version 1.13.0"}},
		{&karpenter.UntestedError{Names: []string{"karpenter 1.15.0"}, Unknown: []string{"which IAM actions karpenter 1.15.0 needs is not known, nor what its upgrade does to nodes, nor which values it has", "b"}}, []string{"karpenter 1.15.0 is not tested with this plumbline: use a newer one, or set acceptUntested: which IAM"}},
		{&iam.MissingError{Version: "1.14.3", Role: "arn:aws:iam::111122223333:role/k", Findings: []iam.Finding{{Actions: []string{"ec2:DescribeInstanceStatus", "iam:ListInstanceProfiles"}}}}, []string{"Karpenter's role does not allow ec2:DescribeInstanceStatus (and 1 more), which 1.14.3 needs"}},
		{&iam.UnreadError{Version: "1.14.3", Actions: []string{"ec2:DescribeInstanceStatus"}, Reason: "AWS denies iam:GetRole"}, []string{"unknown whether Karpenter's role allows ec2:DescribeInstanceStatus: set acceptUnread: iam if it does"}},
		{&karpenter.UntestedError{Names: []string{"karpenter 1.14.0+acme.3"}, Unknown: []string{"a"}, Unreleased: true}, []string{"karpenter 1.14.0+acme.3 is not a release of upstream: use one, or set acceptUntested"}},
		{&karpenter.ServedCRDsError{Version: "1.15.0", Fields: []string{"nodepools.karpenter.sh v1: spec.limits", "b"}}, []string{"karpenter 1.15.0 does not fit the CRDs of EKS: use a version that fits", "nodepools.karpenter.sh v1"}},
		{&karpenter.VersionError{Version: "~1.14"}, []string{`version of karpenter is "~1.14": give one full version`}},
		{&karpenter.SkippedHopError{From: "0.32.10", To: "1.14.1", Next: "1.0.8"}, []string{"cannot be upgraded to 1.14.1 at once: set version 1.0.8"}},
		{&karpenter.DowngradeError{From: "1.0.8", To: "0.37.6"}, []string{"karpenter 1.0.8 cannot be downgraded to 0.37.6"}},
		{&karpenter.LostVersionError{CRD: "ec2nodeclasses.karpenter.k8s.aws", Versions: []string{"v1beta1"}, Has: []string{"v1"}}, []string{"crd ec2nodeclasses.karpenter.k8s.aws stores objects as v1beta1"}},
		{&karpenter.ValuesError{Version: "1.14.1", Words: []string{"controller.resource: did you mean controller.resources"}}, []string{"chart karpenter 1.14.1", "controller.resource: did you mean"}},
	}
}

func briefsOfWrites() []brief {
	pool := render.Ref{Kind: render.NodePool, Name: "general-purpose-arm64"}
	forbidden := errors.New(`nodepools.karpenter.sh "general-purpose-arm64" is forbidden: User "system:serviceaccount:plumbline-system:plumbline" cannot patch resource "nodepools" in API group "karpenter.sh" at the cluster scope`)
	return []brief{
		{&apply.InvalidError{Ref: pool, Problems: []string{"spec.weight: must be at most 100", "odd"}}, []string{pool.String() + ": the API server refuses it: spec.weight: must be at most 100 (and 1 more)"}},
		{&apply.AdmissionError{Ref: pool, Err: errors.New(`admission webhook "validate.kyverno.svc-fail" denied the request: resource NodePool//general-purpose-arm64 was blocked due to the following policies require-team-label: label team is required`)}, []string{pool.String() + ": denied by webhook validate.kyverno.svc-fail: ", "label team is required"}},
		{&apply.AdmissionError{Ref: pool, Err: errors.New(`nodepools.karpenter.sh "general-purpose-arm64" is forbidden: ValidatingAdmissionPolicy 'nodepool-limits' with binding 'nodepool-limits-prod' denied request: limits.cpu is required`)}, []string{"denied by ValidatingAdmissionPolicy nodepool-limits: limits.cpu is required"}},
		{&apply.WebhookError{Ref: pool, Webhook: "validate.kyverno.svc-fail", Err: errors.New(`Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post "https://kyverno-svc.kyverno.svc:443/validate/fail?timeout=10s": dial tcp 10.0.0.7:443: connect: connection refused`)}, []string{pool.String() + ": webhook validate.kyverno.svc-fail does not answer", "connection refused"}},
		{&apply.MutatedError{Ref: pool, Fields: []plan.Field{{Path: "spec.limits.cpu", From: "77", To: "200"}}}, []string{pool.String() + ": a mutating webhook or policy changes it: ", `spec.limits.cpu is "200" in Git`}},
		{&apply.RepeatedRevertError{Ref: pool, Fields: []plan.Field{{Path: "spec.template.spec.expireAfter"}}, Editors: []string{"tuner"}, Times: 3}, []string{pool.String() + ": reverted 3 times within an hour; correction is paused: ", "spec.template.spec.expireAfter changed by tuner"}},
		{&configmap.StuckError{Name: types.NamespacedName{Namespace: "plumbline-system", Name: "plumbline-prod"}, Holds: "the record of removals", Why: "is immutable: recreate it with what it has: kubectl get configmap -n plumbline-system plumbline-prod -o yaml | sed"}, []string{"ConfigMap plumbline-system/plumbline-prod (the record of removals) is immutable: recreate it with what it has"}},
		{&apply.NotServedError{Ref: pool, Err: errors.New("no match")}, []string{"does not serve its kind: install the karpenter-crd chart"}},
		{fmt.Errorf("apply %s: %w", pool, forbidden), []string{"ServiceAccount plumbline-system/plumbline may not patch nodepools.karpenter.sh: add the rule to its ClusterRole"}},
	}
}

func briefsOfAll() []brief {
	var all []brief
	for _, some := range [][]brief{briefsOfCommits(), briefsOfSources(), briefsOfCharts(), briefsOfWrites()} {
		all = append(all, some...)
	}
	return all
}

// TestBriefSaysTheReason of every refusal, within the limit of Git hosts, both bare and wrapped as by steps.
func TestBriefSaysTheReason(t *testing.T) {
	for _, b := range briefsOfAll() {
		for form, err := range map[string]error{
			"bare":       b.err,
			"classified": fault.Classify(b.err),
			"wrapped":    fmt.Errorf("the definitions of main@sha1:0123456789012345678901234567890123456789 cannot be rendered: %w", b.err),
		} {
			got := fault.BriefOf(err).String()
			if n := utf8.RuneCountInString(got); n > fault.MaxBrief {
				t.Errorf("%s %s: %d characters: %s", form, nameOf(b.err), n, got)
			}
			for _, words := range b.words {
				if !strings.Contains(got, words) {
					t.Errorf("%s %s: lacks %q:\n%s", form, nameOf(b.err), words, got)
				}
			}
			if head, _, _ := strings.Cut(got, ":"); strings.Count(got, head) > 1 {
				t.Errorf("%s %s: says %q twice:\n%s", form, nameOf(b.err), head, got)
			}
		}
	}
}

// TestEveryRefusalIsBrief: a new error type that a person has to act on needs a row.
func TestEveryRefusalIsBrief(t *testing.T) {
	rows := map[string]bool{}
	for _, b := range briefsOfAll() {
		rows[nameOf(b.err)] = true
	}
	for _, m := range meanings() {
		if m.class == fault.Terminal && !rows[nameOf(m.err)] {
			t.Errorf("%s has no row here: say what of it has to be left in %d characters", nameOf(m.err), fault.MaxBrief)
		}
	}
}

// TestBriefOfSeveral: it is the Brief of the most severe, and counts the others.
func TestBriefOfSeveral(t *testing.T) {
	pool := render.Ref{Kind: render.NodePool, Name: "a"}
	err := errors.Join(errors.New("odd"), &plan.ConflictError{Ref: pool, Owner: "x.y"}, &apply.NotServedError{Ref: pool})
	if got, want := fault.BriefOf(err).String(), "NodePool/a belongs to NodeSync x.y: remove it from one of the two repositories (and 2 more)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBriefOfNothing(t *testing.T) {
	if got := fault.BriefOf(nil).String(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestGitHostsTakeABrief(t *testing.T) {
	if fault.MaxBrief != report.MaxDescription {
		t.Errorf("a brief has %d characters, a commit status %d", fault.MaxBrief, report.MaxDescription)
	}
}

// TestWhatToDoIsNeverCut: a truncated digest approves nothing.
func TestWhatToDoIsNeverCut(t *testing.T) {
	then := "4 of 5 have approved; approve d4gjuo35eepqzgr3puqr6de2hn"
	for name, b := range map[string]fault.Brief{
		"short":        {What: "held", Cause: "drains 2 of 2 nodes in 1 pool", Then: then},
		"a long cause": {What: "held", Cause: "drains up to 1200 and replaces up to 1200 and leaves 1200 unmanaged of 12000 nodes and others on the same EC2NodeClass in 100 pools", Then: then},
		"a long place": {What: "held", Cause: strings.Repeat("drains many nodes ", 9), Then: then, Where: strings.Repeat("clusters/prod/", 9) + "nodes/general.yaml:12"},
		"no cause":     {What: strings.Repeat("held ", 40), Then: then},
	} {
		text := b.String()
		if !strings.HasPrefix(text, "held") || !strings.Contains(text, "; "+then) || utf8.RuneCountInString(text) > fault.MaxBrief {
			t.Errorf("%s: %d characters: %s", name, utf8.RuneCountInString(text), text)
		}
	}
}
