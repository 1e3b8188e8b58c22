package v1alpha1

import (
	"cmp"
	"net"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source is one place where definitions come from.
//
// +kubebuilder:validation:XValidation:rule="has(self.git) != has(self.sourceRef)",message="set either git or sourceRef, not both"
type Source struct {
	// Git is a repository that plumbline fetches by itself.
	// +optional
	Git *GitSource `json:"git,omitempty"`

	// SourceRef is a source of Flux, whose newest artifact is followed: nothing is fetched a second time, and no
	// credentials are needed.
	// +optional
	SourceRef *SourceRef `json:"sourceRef,omitempty"`
}

// SourceRef names a source of Flux, with the same fields as in Flux.
type SourceRef struct {
	// Kind of the source, in the API group source.toolkit.fluxcd.io.
	// +kubebuilder:validation:Enum=GitRepository;OCIRepository;Bucket;ExternalArtifact
	// +required
	Kind string `json:"kind"`

	// Name of the source.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// Namespace of the source. Default: that of the NodeSync. Any other must be in the daemon's --source-namespaces.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// GitRepositoryKind is the kind of Flux's source whose revisions are commits.
const GitRepositoryKind = "GitRepository"

// String returns kind/namespace/name.
func (r SourceRef) String() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// Address returns where the definitions come from, for messages and as the key of what is shared: the URL of the
// repository, or Flux's source.
func (s Source) Address() string {
	switch {
	case s.Git != nil:
		return s.Git.URL
	case s.SourceRef != nil:
		return s.SourceRef.String()
	}
	return ""
}

// Repository returns the URL of the repository; empty if Flux fetches it.
func (s Source) Repository() string {
	if s.Git == nil {
		return ""
	}
	return s.Git.URL
}

// Verification returns which signatures a revision needs; nil if none, or if Flux verifies them.
func (s Source) Verification() *GitVerification {
	if s.Git == nil {
		return nil
	}
	return s.Git.Verify
}

// Unprotected reports whether an attacker on the network path to the Git host can change the definitions: the
// connection is neither encrypted nor on loopback, and no signature is verified.
func (s Source) Unprotected() bool {
	if s.Git == nil || s.Git.Verify != nil {
		return false
	}
	at, err := url.Parse(s.Git.URL)
	if err != nil || at.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// FollowedBranch returns the branch that is followed; empty if there is none, or if only Flux knows it.
func (s Source) FollowedBranch() string {
	if s.Git == nil {
		return ""
	}
	return s.Git.Ref.FollowedBranch()
}

// SourceRef returns the source of Flux that a NodeSync follows, with its namespace; nil if there is none.
func (n *NodeSync) SourceRef() *SourceRef {
	ref := n.Spec.Source.SourceRef
	if ref == nil {
		return nil
	}
	whole := *ref
	whole.Namespace = cmp.Or(ref.Namespace, n.Namespace)
	return &whole
}

// GitSource is a Git repository over https or ssh.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.verify.mode) || self.verify.mode != 'Tag' || ((!has(self.ref.commit) || self.ref.commit.size() == 0) && (has(self.ref.name) && self.ref.name.size() > 0 ? self.ref.name.startsWith('refs/tags/') : has(self.ref.tag) && self.ref.tag.size() > 0 || has(self.ref.semver) && self.ref.semver.size() > 0))",message="verify.mode Tag needs a ref that is a tag: tag, semver or a name under refs/tags/"
type GitSource struct {
	// URL of the repository: https://, http:// or ssh://.
	// +kubebuilder:validation:Pattern=`^(https?|ssh)://.+$`
	// +kubebuilder:validation:MaxLength=2048
	// +required
	URL string `json:"url"`

	// Ref is the branch, tag, semver range, reference name or commit to follow.
	// +kubebuilder:default={}
	// +optional
	Ref GitRef `json:"ref,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with Flux's keys:
	// username and password, or bearerToken, and ca.crt; for ssh identity,
	// identity.pub, known_hosts and, for an encrypted key, password.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// Verify sets which signatures a revision needs. Without it, plumbline trusts the Git host.
	// +optional
	Verify *GitVerification `json:"verify,omitempty"`
}

// Decryption is how encrypted values in Git are decrypted, as in Flux's Kustomization.
type Decryption struct {
	// Provider is sops.
	// +kubebuilder:validation:Enum=sops
	// +required
	Provider string `json:"provider"`
	// SecretRef names a Secret in the NodeSync's namespace with the keys: identities of age in *.agekey, armored OpenPGP
	// private keys in *.asc. Default: only AWS KMS is asked, with the daemon's own role.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}

// GitVerification sets which signatures a revision needs before anything of it is
// read.
type GitVerification struct {
	// Mode is what must be signed.
	// +kubebuilder:default=HEAD
	// +optional
	Mode VerificationMode `json:"mode,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with the public keys of the trusted signers, one entry each,
	// as in Flux: armored OpenPGP keys in entries that end in .asc, SSH keys in the format of authorized_keys in
	// entries that end in .sshpub. Allowed signers, in the format of ssh-keygen, are in entries that end in
	// .allowed_signers. All others are read as OpenPGP keys.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// VerificationMode is what must be signed.
//
// +kubebuilder:validation:Enum=HEAD;Tag;Range
type VerificationMode string

// The values of VerificationMode.
const (
	// VerifyHEAD requires a signed commit.
	VerifyHEAD VerificationMode = "HEAD"
	// VerifyTag requires a signed, annotated tag of the commit.
	VerifyTag VerificationMode = "Tag"
	// VerifyRange requires that the commit is signed and every other one since the last verified one, including merges
	// and the commits that they bring.
	VerifyRange VerificationMode = "Range"
)

// ChartAccess is what of the charts may come from Git, and the credentials of their hosts.
type ChartAccess struct {
	// Allow is what may come from Git: repositories, versions, digests and values.
	//
	// By default, only Karpenter's public repository is allowed, and values that change only Karpenter's settings and
	// where it runs.
	// +optional
	Allow *ChartAllow `json:"allow,omitempty"`

	// Registries are the hosts of OCI registries and Helm repositories. A host that is not listed is accessed
	// anonymously.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=host
	// +optional
	Registries []Registry `json:"registries,omitempty"`

	// Verify sets which signatures the charts need. Without it, plumbline trusts the registry for the digest.
	// +optional
	Verify *ChartVerification `json:"verify,omitempty"`
}

// ChartVerification sets which signatures the charts need. Only charts in OCI registries can have them: all others are
// refused.
type ChartVerification struct {
	// Provider is the tool that the charts are signed with.
	// +kubebuilder:validation:Enum=cosign
	// +kubebuilder:default=cosign
	// +optional
	Provider string `json:"provider,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with the trusted public keys, in PEM, in entries that end in
	// .pub. A chart needs a signature by one of them.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// Registry is one host of charts. Its credentials are sent only to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) || has(self.certSecretRef)",message="set secretRef, certSecretRef or both"
type Registry struct {
	// Host as in the URL, in lower case, with the port if the URL has one.
	// +kubebuilder:validation:Pattern=`^(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?$`
	// +kubebuilder:validation:MaxLength=255
	// +required
	Host string `json:"host"`

	// SecretRef names a Secret in the NodeSync's namespace: of the type
	// kubernetes.io/dockerconfigjson, or with the keys username and password.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// CertSecretRef names a Secret in the NodeSync's namespace whose key ca.crt contains certificate authorities, in
	// PEM, that are trusted for this host.
	// +optional
	CertSecretRef *LocalReference `json:"certSecretRef,omitempty"`
}

// DefaultBranch is followed if a GitRef is empty.
const DefaultBranch = "main"

// GitRef is what to follow. If several are set, the first of commit, name, semver, tag and branch applies, as in Flux.
// If none is, branch main.
type GitRef struct {
	// Branch to follow.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Branch string `json:"branch,omitempty"`
	// Tag to follow.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of tags; the highest in it is followed.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	SemVer string `json:"semver,omitempty"`
	// Name is a full reference name, such as refs/pull/1/head.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`
	// Commit is a full SHA-1 of a commit.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40})?$`
	// +optional
	Commit string `json:"commit,omitempty"`
}

// FollowedBranch returns the branch that is followed; empty if a commit, a name or tags are followed.
func (r GitRef) FollowedBranch() string {
	if cmp.Or(r.Commit, r.Name, r.SemVer, r.Tag) != "" {
		return ""
	}
	return cmp.Or(r.Branch, DefaultBranch)
}

// LocalReference names an object in the NodeSync's own namespace.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// VerifiedRevision is a revision whose signatures were verified, and by which rules.
type VerifiedRevision struct {
	// Revision that was verified.
	Revision string `json:"revision"`
	// Object is the hash of the signed object: the commit or the tag.
	Object string `json:"object"`
	// Signer is the entry of the Secret with the key that signed it, and the key.
	Signer string `json:"signer"`
	// SignedAt is the date that the commit or the tag claims.
	// +optional
	SignedAt *metav1.Time `json:"signedAt,omitempty"`
	// Newer is a revision that was verified before and that claims a newer date: the branch was reset, or the host
	// serves an older state.
	// +optional
	Newer *NewerRevision `json:"newer,omitempty"`
	// URL, Mode and Secret are those of spec.source.git.
	URL string `json:"url"`
	// +optional
	Mode VerificationMode `json:"mode,omitempty"`
	// +optional
	Secret string `json:"secret,omitempty"`
}

// NewerRevision is the newest revision that was verified.
type NewerRevision struct {
	// Revision that was verified.
	Revision string `json:"revision"`
	// SignedAt is the date that its commit or its tag claims.
	SignedAt metav1.Time `json:"signedAt"`
}

// NewestAppliedRevision returns the newest revision of which anything was written; empty if no revision was ever
// applied completely.
func (s NodeSyncStatus) NewestAppliedRevision() string {
	if s.LastAppliedRevision == "" {
		return ""
	}
	return cmp.Or(s.PartlyAppliedRevision, s.LastAppliedRevision)
}
