package charts

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/redact"
)

// InvalidRefError reports that a Ref cannot be requested.
type InvalidRefError struct {
	Ref    Ref
	Reason string
}

// Error returns the reason why the Ref is invalid.
func (e *InvalidRefError) Error() string { return "charts of karpenter: " + e.Reason }

// NotFoundError reports that the repository does not contain the chart or version.
type NotFoundError struct {
	Ref   Ref
	Chart string
	// Near are versions that the repository contains, the nearest first. Empty if
	// they could not be listed cheaply.
	Near []string
	// Reason gives details if the repository itself does not exist.
	Reason string
	Err    error
}

// Error names the chart, the version and versions near it.
func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("chart %s %s is not in %s", e.Chart, e.Ref.Version, e.Ref.Repository)
	switch {
	case len(e.Near) > 0:
		return text + "; the nearest versions are " + strings.Join(e.Near, ", ")
	case e.Reason != "":
		return text + ", " + e.Reason
	}
	return text + ": check version and repository in plumbline.yaml"
}

// Unwrap returns the registry's error.
func (e *NotFoundError) Unwrap() error { return e.Err }

// UnreachableError reports that the registry gave no usable answer.
type UnreachableError struct {
	Ref   Ref
	Chart string
	Err   error
}

// Error names the registry and the registry's error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("pull chart %s %s from %s: %v", e.Chart, e.Ref.Version, e.Ref.Repository, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// AuthError reports that a host rejected the credentials, or a request without credentials.
type AuthError struct {
	Ref   Ref
	Chart string
	// Host rejects the request, and Origin is where its credentials were read from: "secret mirror";
	// empty if the request was anonymous.
	Host, Origin string
	Err          error
}

// Error names the host and the Secret, and never the Secret's contents.
func (e *AuthError) Error() string {
	text := fmt.Sprintf("pull chart %s %s from %s: %s refuses ", e.Chart, e.Ref.Version, e.Ref.Repository, e.Host)
	if e.Origin == "" {
		return fmt.Sprintf("%saccess without credentials: %v: name a secret for it under spec.charts.registries of the NodeSync", text, e.Err)
	}
	return fmt.Sprintf("%sthe credentials of %s: %v: check whether they have expired, and renew them there", text, e.Origin, e.Err)
}

// Unwrap returns the host's error.
func (e *AuthError) Unwrap() error { return e.Err }

// CertificateError reports that a host's TLS certificate is not trusted.
type CertificateError struct {
	Ref   Ref
	Chart string
	Err   error
}

// Error describes where to configure the authority.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("pull chart %s %s from %s: the host's certificate is not trusted: %v: put its CA into the key %s of a Secret, and name that as certSecretRef under spec.charts.registries of the NodeSync",
		e.Chart, e.Ref.Version, e.Ref.Repository, e.Err, keyCA)
}

// Unwrap returns the error of the verification.
func (e *CertificateError) Unwrap() error { return e.Err }

// PinnedError reports that a chart is not the one that plumbline.yaml pins.
type PinnedError struct {
	Ref   Ref
	Chart string
	// Found is the digest in the repository; Pinned is the digest in plumbline.yaml.
	Found, Pinned string
}

// Error names both digests.
func (e *PinnedError) Error() string {
	return fmt.Sprintf("refused: chart %s %s from %s has digest %s, and digests.%s in plumbline.yaml pins %s: correct the pin if this chart is meant, or find out who replaced it",
		e.Chart, e.Ref.Version, e.Ref.Repository, e.Found, e.Chart, e.Pinned)
}

// MovedError reports that the repository no longer contains the installed chart.
type MovedError struct {
	Ref   Ref
	Chart string
	// Found is the digest that the version has there now, empty if it has none. InForce is the
	// digest of the installed chart.
	Found, InForce string
}

// Error names both digests, and describes how a commit requests the other one.
func (e *MovedError) Error() string {
	text := fmt.Sprintf("chart %s %s that is installed (%s) is not in %s any more", e.Chart, e.Ref.Version, e.InForce, e.Ref.Repository)
	if e.Found == "" {
		return text + ": push it there again, or commit another version or repository in plumbline.yaml"
	}
	return fmt.Sprintf("%s: the version stands for %s now, which no commit has requested; to install that, commit digests.%s: %s in plumbline.yaml", text, e.Found, e.Chart, e.Found)
}

// DigestError reports that content does not match its digest.
type DigestError struct {
	Ref   Ref
	Chart string
	Err   error
}

// Error names the chart whose content does not match.
func (e *DigestError) Error() string {
	return fmt.Sprintf("chart %s %s from %s does not match its digest, so it is not used: %v", e.Chart, e.Ref.Version, e.Ref.Repository, e.Err)
}

// Unwrap returns the mismatch.
func (e *DigestError) Unwrap() error { return e.Err }

// MalformedError reports that a chart is complete but is not the requested chart.
type MalformedError struct {
	Chart, Version string
	Err            error
}

// Error describes what is wrong with the chart.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("chart %s %s cannot be used: %v", e.Chart, e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

// RenderError reports that a chart does not render with the given values.
type RenderError struct {
	Chart, Version string
	Err            error
}

// Error uses plumbline's own words: the message of a template may contain a secret.
func (e *RenderError) Error() string {
	return fmt.Sprintf("chart %s %s does not render with these values: %v", e.Chart, e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *RenderError) Unwrap() error { return e.Err }

// ForeignCRDsError reports that the CRD chart contains CRDs that are not Karpenter's.
type ForeignCRDsError struct {
	Version string
	Names   []string
}

// Error names these CRDs.
func (e *ForeignCRDsError) Error() string {
	return fmt.Sprintf("refused: chart %s %s has CRDs that are not Karpenter's: %s: nothing of it is installed; use the chart as released, and install these by other means",
		CRDChart, e.Version, strings.Join(e.Names, ", "))
}

// failure is why a chart does not render. It contains no text that a template has produced:
// fail, required and tpl can print anything, including values from Secrets.
type failure struct {
	Kind failureKind
	// File is the template, and Line the line in it; empty and 0 if unknown.
	File string
	Line int
	// Words are plumbline's own.
	Words string
}

type failureKind string

const (
	failedTemplate     failureKind = "template"
	failedLookup       failureKind = "lookup"
	failedHook         failureKind = "hook"
	failedYAML         failureKind = "yaml"
	failedValues       failureKind = "values"
	failedVersion      failureKind = "version"
	failedDependencies failureKind = "dependencies"
	failedName         failureKind = "name"
	failedSchema       failureKind = "schema"
)

// notShown explains why the template's message is missing, and how to see it.
const notShown = "its message is not shown, since it may contain a secret: run helm template with these values to see it"

// error returns the failure as an error of the chart.
func (f *failure) error(c *chart.Metadata) error {
	at := f.File
	if at == "" {
		at = "a template"
	}
	if f.Line > 0 {
		at += fmt.Sprintf(", line %d", f.Line)
	}
	var text string
	switch f.Kind {
	case failedLookup:
		return &LookupError{Chart: c.Name, Version: c.Version, File: f.File, Line: f.Line}
	case failedHook:
		return &HookError{Chart: c.Name, Version: c.Version, File: f.File}
	case failedYAML:
		text = at + " renders to something that is not YAML"
	case failedValues, failedVersion:
		text = f.Words
	case failedDependencies:
		text = "the dependencies in its Chart.yaml cannot be read"
	case failedName:
		text = "a chart within it has a name with other characters than letters, digits and . _ + @ -"
	case failedSchema:
		text = "its values.schema.json, or that of a chart within it, is no schema by itself: no other file and no URL is read for it, so a $ref must stay within it"
	case failedTemplate:
		text = at + " fails: " + notShown
	default:
		text = at + " fails"
	}
	return &RenderError{Chart: c.Name, Version: c.Version, Err: fmt.Errorf("%s", text)}
}

// LookupError reports that a chart's template reads objects of the cluster.
type LookupError struct {
	Chart, Version string
	// File is the template; Line is 0 if unknown.
	File string
	Line int
}

// Error names the template.
func (e *LookupError) Error() string {
	at := "a template"
	if e.File != "" {
		at = e.File
	}
	if e.Line > 0 {
		at += fmt.Sprintf(", line %d,", e.Line)
	}
	return fmt.Sprintf("refused: chart %s %s: %s calls lookup, which reads objects of the cluster with plumbline's permissions: charts are rendered without the cluster; set what it looks up as a value",
		e.Chart, e.Version, at)
}

// HookError reports that a chart contains a hook; none of Karpenter's charts does.
type HookError struct {
	Chart, Version string
	// File is the template.
	File string
}

// Error names the template.
func (e *HookError) Error() string {
	return fmt.Sprintf("refused: chart %s %s: %s is a Helm hook, and Karpenter's charts have none: nothing of it is installed; use the chart as released",
		e.Chart, e.Version, e.File)
}

var templatePlace = regexp.MustCompile(`([^\s():"<>]+):(\d+)`)

// longestSearched limits how much of an error is searched for a place: the first
// template that it names is the outermost one.
const longestSearched = 4 << 10

// placeOf returns the template and the line with which an error begins. Only names of the
// chart's own templates count: a template can write anything into its error.
func placeOf(err error, known map[string]bool) (file string, line int) {
	text := err.Error()
	text = text[:min(len(text), longestSearched)]
	for _, found := range templatePlace.FindAllStringSubmatch(text, -1) {
		if known[found[1]] {
			line, _ := strconv.Atoi(found[2])
			return found[1], line
		}
	}
	for name := range known {
		if strings.HasPrefix(text, "YAML parse error on "+name+":") {
			return name, 0
		}
	}
	return "", 0
}

var schemaPath = regexp.MustCompile(`at '(/[^']*)'`)

// schemaProblem names the values that do not match a chart's schema, without their contents.
func schemaProblem(err error) string {
	const most = 5
	var names []string
	seen := map[string]bool{}
	for _, found := range schemaPath.FindAllStringSubmatch(err.Error(), -1) {
		if name := "values" + strings.ReplaceAll(found[1], "/", "."); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "the values do not fit the chart's values.schema.json"
	}
	return shortlist.Join(names, most, ", ") + " do not fit the chart's values.schema.json"
}

// classify converts an error of a registry or a Helm repository into an error of this package.
func classify(ref Ref, chart string, with *session, err error) error {
	var keys *keysError
	if errors.As(err, &keys) {
		return keys.err
	}
	var token *tokenHostError
	if errors.As(err, &token) {
		return &AuthError{Ref: ref, Chart: chart, Host: token.home, Origin: with.originOf(token.home), Err: token}
	}
	scrub(err)
	var answer *errcode.ErrorResponse
	status := 0
	if errors.As(err, &answer) {
		status = answer.StatusCode
	}
	said := redact.Credentials(with.secrets()...).Error(err)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		host := answer.URL.Host
		return &AuthError{Ref: ref, Chart: chart, Host: host, Origin: with.originOf(host), Err: said}
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return &AuthError{Ref: ref, Chart: chart, Host: with.home, Err: said}
	case errors.Is(err, errdef.ErrNotFound), status == http.StatusNotFound:
		return &NotFoundError{Ref: ref, Chart: chart, Err: said}
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData):
		return &DigestError{Ref: ref, Chart: chart, Err: said}
	case errors.Is(err, errdef.ErrInvalidMediaType), errors.Is(err, errdef.ErrSizeExceedsLimit):
		return &MalformedError{Chart: chart, Version: ref.Version, Err: said}
	case untrusted(err):
		return &CertificateError{Ref: ref, Chart: chart, Err: said}
	}
	return &UnreachableError{Ref: ref, Chart: chart, Err: said}
}

// scrub removes the parts of an error that change with each attempt: signed queries of
// redirects, which are also secrets, and local ports.
func scrub(err error) {
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) && answer.URL != nil {
		clean := *answer.URL
		clean.RawQuery = ""
		answer.URL = &clean
	}
	var request *url.Error
	if errors.As(err, &request) {
		request.URL, _, _ = strings.Cut(request.URL, "?")
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		operation.Source = nil
	}
}
