package fault_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// meaning is the expected class and reason of an error of one type.
type meaning struct {
	err    error
	class  fault.Class
	reason string
}

// meanings has a row for every error that a step of a reconcile can return.
func meanings() []meaning {
	return []meaning{
		{&source.UnreachableError{Err: fs.ErrClosed}, fault.Transient, "SourceFailed"},
		{&source.StaleError{}, fault.Superseded, "SourceFailed"},
		{&source.MissingError{}, fault.Transient, "SourceFailed"},
		{&source.SpaceError{Limit: 1}, fault.Transient, "SourceFailed"},
		{&source.StoreError{Err: fs.ErrClosed}, fault.Transient, "SourceFailed"},
		{&source.URLError{}, fault.Terminal, "SourceFailed"},
		{&source.RefError{Err: fs.ErrInvalid}, fault.Terminal, "SourceFailed"},
		{&source.AuthError{Err: fs.ErrPermission}, fault.Terminal, "SourceFailed"},
		{&source.NotFoundError{}, fault.Terminal, "SourceFailed"},
		{&source.CertificateError{Err: fs.ErrInvalid}, fault.Terminal, "SourceFailed"},
		{&source.HostKeyError{}, fault.Terminal, "SourceFailed"},
		{&source.LimitError{}, fault.Terminal, "SourceFailed"},
		{&source.FluxRefError{}, fault.Terminal, "SourceFailed"},
		{&source.ArtifactError{}, fault.Transient, "SourceFailed"},
		{&source.SecretError{Key: "identity"}, fault.Terminal, "SourceFailed"},
		{&signature.Error{}, fault.Terminal, "VerificationError"},
		{&signature.KeysError{}, fault.Terminal, "VerificationError"},
		{&source.HistoryError{}, fault.Terminal, "VerificationError"},
		{&plan.PolicyDeniedError{}, fault.Terminal, "PolicyDenied"},
		{&plan.InvalidPolicyError{}, fault.Terminal, "PolicyInvalid"},
		{&grant.RefusedError{Secret: "fleet-auth"}, fault.Terminal, "SecretRefused"},
		{&source.SymlinkError{}, fault.Terminal, "Invalid"},

		{&render.MissingError{}, fault.Terminal, "Refused"},
		{&render.SlowError{}, fault.Terminal, "Refused"},
		{&render.EmptyError{}, fault.Terminal, "Refused"},
		{render.Error{}, fault.Terminal, "Invalid"},
		{render.Errors{{File: "a.yaml", Line: 1}, {File: "b.yaml", Line: 2}}, fault.Terminal, "Invalid"},

		{&plan.MissingClassError{}, fault.Terminal, "Invalid"},
		{&plan.RefusedError{}, fault.Terminal, "Refused"},
		{&plan.ConflictError{}, fault.Terminal, "Conflict"},

		{&charts.UnreachableError{Err: fs.ErrClosed}, fault.Transient, "ChartFailed"},
		{&release.BusyError{}, fault.Waiting, "Waiting"},
		{&release.TerminatingError{}, fault.Waiting, "Waiting"},
		{&charts.InvalidRefError{}, fault.Terminal, "ChartFailed"},
		{&charts.NotFoundError{Err: fs.ErrNotExist}, fault.Terminal, "ChartFailed"},
		{&charts.AuthError{Err: fs.ErrPermission}, fault.Terminal, "ChartFailed"},
		{&charts.DigestError{Err: fs.ErrInvalid}, fault.Terminal, "ChartFailed"},
		{&schema.HeavyError{CRD: "nodepools.karpenter.sh"}, fault.Terminal, "Refused"},
		{&charts.MalformedError{Err: fs.ErrInvalid}, fault.Terminal, "ChartFailed"},
		{&charts.RenderError{Err: fs.ErrInvalid}, fault.Terminal, "ChartFailed"},
		{&charts.LookupError{}, fault.Terminal, "Refused"},
		{&charts.HookError{}, fault.Terminal, "Refused"},
		{&allowance.RefusedError{}, fault.Terminal, "Refused"},
		{&confine.LimitError{}, fault.Terminal, "Refused"},
		{&confine.ChildError{Err: fs.ErrClosed}, fault.Transient, "Failed"},
		{&plan.InvalidCalendarError{}, fault.Terminal, "GuardInvalid"},
		{&contradiction.Error{}, fault.Terminal, "Refused"},
		{&charts.ValuesError{}, fault.Terminal, "Invalid"},
		{&charts.LayerError{}, fault.Terminal, "Invalid"},
		{&survey.ForeignReleaseError{}, fault.Terminal, "Conflict"},
		{&survey.ForeignObjectsError{}, fault.Terminal, "Conflict"},
		{&survey.ReconciledError{}, fault.Terminal, "Conflict"},
		{&survey.ElsewhereError{}, fault.Terminal, "Conflict"},
		{&survey.OtherChartError{}, fault.Terminal, "Conflict"},
		{&survey.NewerError{}, fault.Terminal, "Refused"},
		{&release.RejectedError{}, fault.Terminal, "ChartFailed"},
		{&release.ForbiddenError{}, fault.Terminal, "Forbidden"},
		{&release.DroppedCRDsError{}, fault.Terminal, "Refused"},
		{&release.UnprotectedCRDsError{}, fault.Terminal, "Refused"},
		{&charts.ForeignCRDsError{}, fault.Terminal, "Refused"},
		{&charts.UnsignedError{}, fault.Terminal, "VerificationError"},
		{&charts.PinnedError{}, fault.Terminal, "Refused"},
		{&charts.MovedError{}, fault.Terminal, "Held"},
		{&charts.SecretError{}, fault.Terminal, "ChartFailed"},
		{&charts.CertificateError{Err: fs.ErrInvalid}, fault.Terminal, "ChartFailed"},
		{&release.NoRevisionError{}, fault.Terminal, "UpgradeFailed"},
		{&karpenter.KubernetesError{}, fault.Terminal, "Refused"},
		{&karpenter.UntestedError{}, fault.Terminal, "Held"},
		{&iam.MissingError{}, fault.Terminal, "Forbidden"},
		{&iam.UnreadError{}, fault.Terminal, "Held"},
		{&karpenter.ServedCRDsError{}, fault.Terminal, "Held"},
		{&karpenter.VersionError{}, fault.Terminal, "Refused"},
		{&karpenter.SkippedHopError{}, fault.Terminal, "Refused"},
		{&karpenter.DowngradeError{}, fault.Terminal, "Refused"},
		{&karpenter.LostVersionError{}, fault.Terminal, "Refused"},
		{&karpenter.ValuesError{}, fault.Terminal, "Invalid"},

		{&cloud.DeniedError{Err: fs.ErrPermission}, fault.Transient, "Denied"},
		{&cloud.CredentialsError{Err: fs.ErrPermission}, fault.Transient, "NoCredentials"},
		{&cloud.ThrottledError{Err: fs.ErrClosed}, fault.Transient, "Throttled"},
		{&cloud.PartialError{Err: fs.ErrClosed}, fault.Transient, "AnswerIncomplete"},
		{&cloud.UnreachableError{Err: fs.ErrClosed}, fault.Transient, "Unreachable"},
		{&cloud.NotFoundError{Err: fs.ErrNotExist}, fault.Transient, "ClusterNotFound"},
		{&cloud.AnswerError{Err: fs.ErrInvalid}, fault.Transient, "RefusedByAWS"},

		{&apply.StaleError{Err: fs.ErrInvalid}, fault.Superseded, "ApplyFailed"},
		{&apply.ConflictError{}, fault.Superseded, "Conflict"},
		{&apply.TerminatingError{}, fault.Waiting, "Waiting"},
		{&apply.WaitingError{}, fault.Waiting, "Waiting"},
		{&apply.NotServedError{Err: fs.ErrNotExist}, fault.Waiting, "Waiting"},
		{&apply.InvalidError{Err: fs.ErrInvalid}, fault.Terminal, "ApplyFailed"},
		{&apply.AdmissionError{Err: fs.ErrPermission}, fault.Terminal, "ApplyFailed"},
		{&apply.WebhookError{Err: fs.ErrClosed}, fault.Transient, "ApplyFailed"},
		{&apply.MutatedError{}, fault.Transient, "ApplyFailed"},
		{&apply.RepeatedRevertError{}, fault.Terminal, "Conflict"},

		{&configmap.StuckError{}, fault.Terminal, "Conflict"},
	}
}

func TestEveryTypeHitsItsRule(t *testing.T) {
	for _, m := range meanings() {
		t.Run(nameOf(m.err), func(t *testing.T) {
			for form, err := range map[string]error{
				"bare":    m.err,
				"wrapped": fmt.Errorf("reconcile: %w", fmt.Errorf("step: %w", m.err)),
			} {
				got := fault.Classify(err)
				if got.Class != m.class || got.Reason != m.reason {
					t.Errorf("%s: %s %s, want %s %s", form, got.Class, got.Reason, m.class, m.reason)
				}
				if got.Err != nil && fmt.Sprintf("%p", got.Err) != fmt.Sprintf("%p", err) {
					t.Errorf("%s: the error was replaced by %#v", form, got.Err)
				}
			}
		})
	}
}

// elsewhere lists exported errors that no step returns, with the reason.
func elsewhere() map[string]string {
	return map[string]string{
		"evaluate.FixedError":      "configure classifies it where it is made",
		"fault.Error":              "is classified",
		"document.Error":           "render makes a render.Error of it",
		"document.Repeated":        "render makes render.Errors of it",
		"weigh.Error":              "who reads what was weighed makes an error of its own of it",
		"kustomize.RefusedError":   "render makes render.Errors of it",
		"kustomize.Refusal":        "render makes render.Errors of it",
		"kustomize.BuildError":     "render makes render.Errors of it",
		"schema.UnknownKindError":  "render refuses such kinds before it asks for their schema",
		"source.BranchError":       "a proposed revert never fails a pass",
		"source.GraftError":        "a proposed revert never fails a pass",
		"source.PushError":         "a proposed revert never fails a pass",
		"report.RepositoryError":   "a report never fails a pass",
		"report.SecretError":       "a report never fails a pass",
		"report.UnauthorizedError": "a report never fails a pass",
		"report.RateLimitedError":  "a report never fails a pass",
		"report.NotFoundError":     "a report never fails a pass",
		"report.RejectedError":     "a report never fails a pass",
		"report.MovedError":        "a report never fails a pass",
		"report.UnavailableError":  "a report never fails a pass",
		"cloud.ClaimError":         "only a teardown of a user ends anything in AWS, which the CLI prints",
		"offers.CallError":         "only a what-if asks so, which the CLI prints",
		"review.WithheldError":     "only a plan of a pull request withholds anything",
		"resolve.BusyError":        "an Answer has its words",
		"deploy.ConflictError":     "only plumbline bootstrap returns it",
		"deploy.FailedError":       "only plumbline bootstrap returns it",
		"move.StalledError":        "only plumbline migrate returns it",
		"karpenter.ChannelError":   "only plumbline upgrade returns it",
		"promotion.NotInRingError": "fetch.Step.gate makes it Terminal, with the reason PromotionFailed",
		"render.AliasError":        "a proposed pin of an AMI never fails a reconcile",
		"source.RecordPushError":   "a push of a record never fails a reconcile",
		"resolve.EmptyError":       "an Answer has its words",
		"resolve.UnsupportedError": "an Answer has its words",
	}
}

// TestNoTypeWithoutRule reads the packages below: a new error type without a row fails it.
func TestNoTypeWithoutRule(t *testing.T) {
	rows := map[string]bool{}
	for _, m := range meanings() {
		rows[nameOf(m.err)] = true
	}
	for name := range elsewhere() {
		if rows[name] {
			t.Errorf("%s has a row and is said to need none", name)
		}
		rows[name] = true
	}
	if diff := cmp.Diff(declared(t, "../../reconcile", "../../render", "../../provision", "../../confine", "../../contradiction", "../../internal/configmap"), rows); diff != "" {
		t.Errorf("declared errors (-) and rows (+):\n%s\nput a rule into table.go and a row here, or say under elsewhere why none is needed", diff)
	}
}

// declared returns the exported types with a method Error in the packages below roots, as package.Type.
func declared(t *testing.T, roots ...string) map[string]bool {
	t.Helper()
	types := map[string]bool{}
	read := func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if method, ok := d.(*ast.FuncDecl); ok && method.Recv != nil && method.Name.Name == "Error" {
				if receiver := receiverOf(method); ast.IsExported(receiver) {
					types[file.Name.Name+"."+receiver] = true
				}
			}
		}
		return nil
	}
	for _, root := range roots {
		if err := filepath.WalkDir(root, read); err != nil {
			t.Fatal(err)
		}
	}
	return types
}

func receiverOf(method *ast.FuncDecl) string {
	receiver := method.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	name, ok := receiver.(*ast.Ident)
	if !ok {
		return ""
	}
	return name.Name
}

func nameOf(err error) string {
	of := reflect.TypeOf(err)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of.String()
}
