package v1alpha1

import (
	"cmp"
	"net"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source is one place where definitions come from.
//
// +kubebuilder:validation:XValidation:rule="has(self.git) != has(self.sourceRef)",message="give git or sourceRef, and not both"
type Source struct {
	// Git is a repository that plumbline fetches by itself.
	// +optional
	Git *GitSource `json:"git,omitempty"`

	// SourceRef is a source of Flux, whose newest artifact is followed: nothing is fetched a
	// second time, and no credentials are needed.
	// +optional
	SourceRef *SourceRef `json:"sourceRef,omitempty"`
}

// SourceRef names a source of Flux, by the fields that Flux has for it.
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

	// Namespace of the source. Default: that of the NodeSync. Another one must be among those of
	// the daemon's --source-namespaces.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// GitRepositoryKind is the kind of Flux's source whose revisions are commits.
const GitRepositoryKind = "GitRepository"

// String is kind/namespace/name.
func (r SourceRef) String() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// Address is where the definitions come from, for people and as the name of what is shared: the URL of
// the repository, or Flux's source.
func (s Source) Address() string {
	switch {
	case s.Git != nil:
		return s.Git.URL
	case s.SourceRef != nil:
		return s.SourceRef.String()
	}
	return ""
}

// Repository is the URL of the repository; empty if Flux fetches.
func (s Source) Repository() string {
	if s.Git == nil {
		return ""
	}
	return s.Git.URL
}

// Verification says which signatures a revision needs; nil if none, or where Flux verifies.
func (s Source) Verification() *GitVerification {
	if s.Git == nil {
		return nil
	}
	return s.Git.Verify
}

// Unprotected reports whether an attacker on the network path to the Git host can change the definitions: the connection is neither
// encrypted nor on loopback, and no signature is verified.
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

// FollowedBranch is the branch that is followed; empty if there is none, or Flux knows it.
func (s Source) FollowedBranch() string {
	if s.Git == nil {
		return ""
	}
	return s.Git.Ref.FollowedBranch()
}

// SourceRef is the source of Flux that a NodeSync follows, with its namespace; nil if there is none.
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

	// Verify says which signatures a revision needs. Without it the Git host's word
	// is enough.
	// +optional
	Verify *GitVerification `json:"verify,omitempty"`
}

// GitVerification says which signatures a revision needs before anything of it is
// read.
type GitVerification struct {
	// Mode is what must be signed.
	// +kubebuilder:default=HEAD
	// +optional
	Mode VerificationMode `json:"mode,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with the public keys of
	// the trusted signers, one entry each, as Flux has it: armored OpenPGP keys in
	// entries that end in .asc, SSH keys in the form of authorized_keys in entries
	// that end in .sshpub. Allowed signers, as ssh-keygen knows them, are in entries
	// that end in .allowed_signers. All others are read as OpenPGP keys.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// VerificationMode is what must be signed.
//
// +kubebuilder:validation:Enum=HEAD;Tag;Range
type VerificationMode string

// The values of VerificationMode.
const (
	// VerifyHEAD wants the commit signed.
	VerifyHEAD VerificationMode = "HEAD"
	// VerifyTag wants an annotated tag that is signed and names the commit.
	VerifyTag VerificationMode = "Tag"
	// VerifyRange wants the commit signed and every other one since the last
	// verified one, merges and what they bring included.
	VerifyRange VerificationMode = "Range"
)

// ChartAccess is what of the charts may come from Git, and what their hosts are opened
// with.
type ChartAccess struct {
	// Allow is what may come from Git: repositories, versions, digests and values.
	//
	// Without it, only Karpenter's public repository is allowed, and values that change nothing but Karpenter's
	// settings and its place in the cluster.
	// +optional
	Allow *ChartAllow `json:"allow,omitempty"`

	// Registries are the hosts, of OCI registries and of Helm repositories. A host
	// that is not among them is asked as nobody.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=host
	// +optional
	Registries []Registry `json:"registries,omitempty"`

	// Verify says which signatures the charts need. Without it the registry's word
	// is enough for the digest.
	// +optional
	Verify *ChartVerification `json:"verify,omitempty"`
}

// ChartVerification says which signatures the charts need. Only charts in OCI
// registries have some: those from elsewhere are refused.
type ChartVerification struct {
	// Provider is the tool that has signed them.
	// +kubebuilder:validation:Enum=cosign
	// +kubebuilder:default=cosign
	// +optional
	Provider string `json:"provider,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with the public keys that
	// are trusted, in PEM form, in entries that end in .pub. A chart needs a
	// signature of one of them.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// Registry is one host of charts. What opens it is sent only to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) || has(self.certSecretRef)",message="give secretRef, certSecretRef or both"
type Registry struct {
	// Host as in the URL, in lower case, with the port where the URL has one.
	// +kubebuilder:validation:Pattern=`^(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?$`
	// +kubebuilder:validation:MaxLength=255
	// +required
	Host string `json:"host"`

	// SecretRef names a Secret in the NodeSync's namespace: of the type
	// kubernetes.io/dockerconfigjson, or with the keys username and password.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// CertSecretRef names a Secret in the NodeSync's namespace whose key ca.crt
	// has authorities in PEM form, which are trusted for this host.
	// +optional
	CertSecretRef *LocalReference `json:"certSecretRef,omitempty"`
}

// DefaultBranch is followed where a GitRef says nothing.
const DefaultBranch = "main"

// GitRef is what to follow. Where several are set, the first of commit, name,
// semver, tag and branch counts, as in Flux. Where none is, branch main.
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

// FollowedBranch is the branch that is followed; empty if a commit, a name or tags are.
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
	// Object is the hash of what had to be signed: the commit's, or the tag's.
	Object string `json:"object"`
	// Signer is the entry of the Secret with the key that has signed it, and the key.
	Signer string `json:"signer"`
	// SignedAt is when the commit, or the tag, was made, in its own words.
	// +optional
	SignedAt *metav1.Time `json:"signedAt,omitempty"`
	// Newer is a revision that was verified before and is newer in its own words: the
	// branch was set back, or the host gives out an older state.
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
	// SignedAt is when its commit, or its tag, was made, in its own words.
	SignedAt metav1.Time `json:"signedAt"`
}

// NewestAppliedRevision is the newest revision of which anything was written; empty if no
// revision was ever applied whole.
func (s NodeSyncStatus) NewestAppliedRevision() string {
	if s.LastAppliedRevision == "" {
		return ""
	}
	return cmp.Or(s.PartlyAppliedRevision, s.LastAppliedRevision)
}
