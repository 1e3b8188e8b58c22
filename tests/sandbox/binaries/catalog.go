package binaries

import "fmt"

// Name is the name of a program.
type Name string

// The programs of a sandbox.
const (
	// Kubernetes contains etcd, the parts of the control plane and kubectl.
	Kubernetes Name = "kubernetes"
	// OlderKubernetes is the same of an older version, for clusters that KubernetesOf names it for. It is built on demand.
	OlderKubernetes Name = "kubernetes-1.36"
	Karpenter       Name = "karpenter"
	Kwok            Name = "kwok"
	Gitea           Name = "gitea"
	Helm            Name = "helm"
)

// The peers of plumbline, which package peers starts. A sandbox itself needs none of them.
const (
	// SourceController, KustomizeController, HelmController and NotificationController are Flux's.
	SourceController       Name = "source-controller"
	KustomizeController    Name = "kustomize-controller"
	HelmController         Name = "helm-controller"
	NotificationController Name = "notification-controller"
	// ArgoCD contains Argo CD's application controller and repo server.
	ArgoCD Name = "argocd"
	// ArgoCDNotifications is its notifications controller.
	ArgoCDNotifications Name = "argocd-notifications"
)

// The programs that test examples/terraform. A sandbox needs none of them.
const (
	// Terraform is built without the backends of remote states.
	Terraform Name = "terraform"
	// TerraformProviderHelm is Terraform's provider of helm_release.
	TerraformProviderHelm Name = "terraform-provider-helm"
)

// ActRunner runs jobs of Gitea Actions, for the story about them. No sandbox needs it.
const ActRunner Name = "act-runner"

// SOPS encrypts values, for the story about them. No sandbox needs it.
const SOPS Name = "sops"

// The versions that the programs report. They are the module versions of tests/sandbox/bin/*/go.mod; a test compares
// them.
const (
	KubernetesVersion          = "1.37.2"
	OlderKubernetesVersion     = "1.36.3"
	GiteaVersion               = "1.26.0"
	KarpenterVersion           = "1.15.0" // unless KarpenterOf specifies another
	SourceControllerVersion    = "1.9.6"
	KustomizeControllerVersion = "1.9.5"
	HelmControllerVersion      = "1.6.1" // the newest that needs no fork of Helm
	// NotificationControllerVersion is the newest that the module proxy has.
	NotificationControllerVersion = "1.9.3"
	ArgoCDVersion                 = "3.2.11"
	TerraformVersion              = "1.13.3"
	// TerraformProviderHelmVersion is the newest that is a Go module.
	TerraformProviderHelmVersion = "1.3.2"
)

// recipe specifies how to build a program.
type recipe struct {
	pkg     string // import path, or "." for a main of the module's own
	tags    string
	ldflags []string
	cgo     bool
	module  string // the folder of its module; if empty, the program's name
	sources string // the folder of its package, if its module has only go.mod and go.sum
}

// flux is the module of those Flux controllers that stories start together: they use the same versions of shared
// modules, so that these are compiled once.
const flux = "flux"

// folder returns the folder of the program's module, below Source.
func (r recipe) folder(name Name) string {
	if r.module != "" {
		return r.module
	}
	return string(name)
}

// All returns the programs of a sandbox that serves the default version of Kubernetes.
func All() []Name { return Of(DefaultKubernetes()) }

// Of returns the programs of a sandbox that serves a minor version of Kubernetes, in the order in which it needs them.
func Of(kubernetes string) []Name {
	return []Name{KubernetesOf(kubernetes), Kwok, Karpenter, Helm, Gitea}
}

// Peers returns plumbline's peers, which a sandbox itself does not need.
func Peers() []Name {
	return []Name{SourceController, KustomizeController, HelmController, NotificationController, ArgoCD, ArgoCDNotifications}
}

// packages are those of the programs whose recipe says no more.
var packages = map[Name]string{
	Kwok:                  "sigs.k8s.io/kwok/cmd/kwok",
	Helm:                  "helm.sh/helm/v3/cmd/helm",
	HelmController:        "github.com/fluxcd/helm-controller",
	TerraformProviderHelm: "github.com/hashicorp/terraform-provider-helm",
	SOPS:                  "github.com/getsops/sops/v3/cmd/sops",
}

func recipeOf(name Name) (recipe, error) {
	strip := []string{"-s", "-w"}
	if pkg, ok := packages[name]; ok {
		return recipe{pkg: pkg, ldflags: strip}, nil
	}
	if version, ok := controllerVersion(name); ok {
		return recipe{
			pkg:     "github.com/aws/karpenter-provider-aws/cmd/controller",
			ldflags: append(strip, "-X", "sigs.k8s.io/karpenter/pkg/operator.Version="+version),
		}, nil
	}
	switch name {
	case Kubernetes, OlderKubernetes:
		return kubernetesRecipe(name, strip), nil
	case Gitea:
		return recipe{pkg: "code.gitea.io/gitea", ldflags: append(strip, "-X", "main.Version="+GiteaVersion), tags: "sqlite sqlite_unlock_notify", cgo: true}, nil
	case SourceController:
		return recipe{pkg: "github.com/fluxcd/source-controller", ldflags: strip, module: flux}, nil
	case KustomizeController:
		return recipe{pkg: "github.com/fluxcd/kustomize-controller", ldflags: strip, module: flux}, nil
	case NotificationController:
		return recipe{pkg: "github.com/fluxcd/notification-controller", ldflags: strip, module: flux}, nil
	case ArgoCD:
		return recipe{pkg: ".", ldflags: strip}, nil
	case ArgoCDNotifications:
		return recipe{pkg: "./notifications", ldflags: strip, module: string(ArgoCD)}, nil
	case ActRunner:
		return recipe{pkg: ".", ldflags: strip, tags: "WITHOUT_DOCKER"}, nil
	case Terraform:
		return recipe{pkg: "github.com/hashicorp/terraform", ldflags: append(strip, "-X", "github.com/hashicorp/terraform/version.dev=no")}, nil
	default:
		return recipe{}, fmt.Errorf("no recipe to build %q: it is none of %v, nor Karpenter of %v", name, All(), KarpenterControllers())
	}
}

func kubernetesRecipe(name Name, strip []string) recipe {
	if name == OlderKubernetes {
		return recipe{pkg: ".", ldflags: append(strip, kubernetesVersionFlags(OlderKubernetesVersion)...), sources: string(Kubernetes)}
	}
	return recipe{pkg: ".", ldflags: append(strip, kubernetesVersionFlags(KubernetesVersion)...)}
}
