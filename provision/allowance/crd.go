package allowance

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// crd checks that a CRD defines what the real one does, in Git exactly that, and that no other
// server converts its objects than Karpenter's own webhook, which 1.0 had.
func (c *check) crd() error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := c.into(&crd); err != nil {
		return err
	}
	c.defines(&crd)
	if c.rendered.InGit {
		refused, err := c.allowance.checkReleased(c.rendered.Version, c.rendered.Digest, &crd)
		if err != nil {
			return err
		}
		c.found = append(c.found, refused...)
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy == apiextensionsv1.NoneConverter {
		return nil
	}
	hook := conversion.Webhook
	if hook == nil || hook.ClientConfig == nil || hook.ClientConfig.URL != nil || hook.ClientConfig.Service == nil ||
		hook.ClientConfig.Service.Name != account || hook.ClientConfig.Service.Namespace != c.rendered.Namespace {
		c.refuse("has its objects converted by a webhook that is not Karpenter's")
	}
	return nil
}

// defines checks the names by which clients ask for a kind, and the versions: a kind that is
// served no more ends every watch of it, Karpenter's too, and hides the objects that live.
func (c *check) defines(crd *apiextensionsv1.CustomResourceDefinition) {
	want, names := c.charts.Kinds[crd.Name], crd.Spec.Names
	plural, group, _ := strings.Cut(crd.Name, ".")
	list := names.ListKind == "" || names.ListKind == want.Kind+"List"
	if crd.Spec.Group != group || names.Plural != plural || names.Kind != want.Kind || !list || string(crd.Spec.Scope) != want.Scope {
		c.refuse("defines another kind than Karpenter's %s %s of group %s", strings.ToLower(want.Scope), want.Kind, group)
		return
	}
	for _, version := range want.Serves {
		if !Serves(crd, version) {
			c.refuse("does not serve %s of %s, which Karpenter and plumbline ask for", version, want.Kind)
		}
	}
}

// Serves says whether clients can ask a CRD's kind for a version.
func Serves(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
}
