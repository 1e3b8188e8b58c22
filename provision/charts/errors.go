package charts

import (
	"fmt"
	"strings"
)

// InvalidRefError says that a Ref cannot be asked for.
type InvalidRefError struct {
	Ref    Ref
	Reason string
}

// Error says what is wrong with the Ref.
func (e *InvalidRefError) Error() string { return "charts of karpenter: " + e.Reason }

// NotFoundError says that the repository has no such chart or version.
type NotFoundError struct {
	Ref   Ref
	Chart string
	// Near are versions that the repository has, the nearest first. Empty where
	// they could not be listed cheaply.
	Near []string
	// Reason says more, where the repository itself is what is missing.
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

// UnreachableError says that the registry gave no usable answer.
type UnreachableError struct {
	Ref   Ref
	Chart string
	Err   error
}

// Error names the registry and what it said.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("pull chart %s %s from %s: %v", e.Chart, e.Ref.Version, e.Ref.Repository, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// AuthError says that a host refused the credentials, or their absence.
type AuthError struct {
	Ref   Ref
	Chart string
	// Host that refuses, and what its credentials were read from: "secret mirror";
	// empty where the request was anonymous.
	Host, Origin string
	Err          error
}

// Error names the host and the Secret, and never what is in it.
func (e *AuthError) Error() string {
	text := fmt.Sprintf("pull chart %s %s from %s: %s refuses ", e.Chart, e.Ref.Version, e.Ref.Repository, e.Host)
	if e.Origin == "" {
		return fmt.Sprintf("%saccess without credentials: %v: name a secret for it under spec.charts.registries of the NodeSync", text, e.Err)
	}
	return fmt.Sprintf("%sthe credentials of %s: %v: check whether they have expired, and renew them there", text, e.Origin, e.Err)
}

// Unwrap returns the host's error.
func (e *AuthError) Unwrap() error { return e.Err }

// CertificateError says that a host's TLS certificate is not trusted.
type CertificateError struct {
	Ref   Ref
	Chart string
	Err   error
}

// Error says where the authority goes.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("pull chart %s %s from %s: the host's certificate is not trusted: %v: put its CA into the key %s of a Secret, and name that as certSecretRef under spec.charts.registries of the NodeSync",
		e.Chart, e.Ref.Version, e.Ref.Repository, e.Err, keyCA)
}

// Unwrap returns what the verification said.
func (e *CertificateError) Unwrap() error { return e.Err }

// PinnedError says that a chart is another than the one that plumbline.yaml pins.
type PinnedError struct {
	Ref   Ref
	Chart string
	// Found is the digest of what is there; Pinned is that of plumbline.yaml.
	Found, Pinned string
}

// Error names both digests.
func (e *PinnedError) Error() string {
	return fmt.Sprintf("refused: chart %s %s from %s has digest %s, and digests.%s in plumbline.yaml pins %s: correct the pin if this chart is meant, or find out who replaced it",
		e.Chart, e.Ref.Version, e.Ref.Repository, e.Found, e.Chart, e.Pinned)
}

// MovedError says that the repository does not have the chart that is in force any more.
type MovedError struct {
	Ref   Ref
	Chart string
	// Found is the digest that the version has there now, empty if it has none. InForce is the
	// one that is installed.
	Found, InForce string
}

// Error names both digests, and how a commit requests the other one.
func (e *MovedError) Error() string {
	text := fmt.Sprintf("chart %s %s that is installed (%s) is not in %s any more", e.Chart, e.Ref.Version, e.InForce, e.Ref.Repository)
	if e.Found == "" {
		return text + ": push it there again, or commit another version or repository in plumbline.yaml"
	}
	return fmt.Sprintf("%s: the version stands for %s now, which no commit has requested; to install that, commit digests.%s: %s in plumbline.yaml", text, e.Found, e.Chart, e.Found)
}

// DigestError says that content is not what its digest says.
type DigestError struct {
	Ref   Ref
	Chart string
	Err   error
}

// Error names the chart whose content does not fit.
func (e *DigestError) Error() string {
	return fmt.Sprintf("chart %s %s from %s does not match its digest, so it is not used: %v", e.Chart, e.Ref.Version, e.Ref.Repository, e.Err)
}

// Unwrap returns the mismatch.
func (e *DigestError) Unwrap() error { return e.Err }

// MalformedError says that a chart is whole but not the chart that was asked for.
type MalformedError struct {
	Chart, Version string
	Err            error
}

// Error says what is wrong with the chart.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("chart %s %s cannot be used: %v", e.Chart, e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

// RenderError says that a chart does not render with the values it was given.
type RenderError struct {
	Chart, Version string
	Err            error
}

// Error has plumbline's words: those of a template may have a secret in them.
func (e *RenderError) Error() string {
	return fmt.Sprintf("chart %s %s does not render with these values: %v", e.Chart, e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *RenderError) Unwrap() error { return e.Err }

// ForeignCRDsError says that the CRD chart has CRDs that are not Karpenter's.
type ForeignCRDsError struct {
	Version string
	Names   []string
}

// Error names them.
func (e *ForeignCRDsError) Error() string {
	return fmt.Sprintf("refused: chart %s %s has CRDs that are not Karpenter's: %s: nothing of it is installed; use the chart as released, and install these by other means",
		CRDChart, e.Version, strings.Join(e.Names, ", "))
}
