package allowance

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

// image checks that a container runs Karpenter's image, of the version that its chart has:
// all that is decided of versions goes by the chart's. What is named by digest may be of any
// version, whatever its tag says: the publisher of a chart is believed that, and so is a chart
// whose digest the NodeSync names.
func (c *check) image(reference string) {
	tagged, digest, byDigest := strings.Cut(reference, "@")
	repository, tag, _ := strings.Cut(tagged, ":")
	if repository != publicImage {
		c.unless("controller.image", "runs another image than "+publicImage)
		return
	}
	if byDigest && !isDigest(digest) {
		c.refuse("names its image by a digest that is none: %q", digest)
	}
	if len(c.allowance.Digests) > 0 {
		return
	}
	switch version := c.rendered.Version; {
	case tag == "":
		c.unless("controller.image.tag", "has no tag in its image, where the chart's version "+version+" should be")
	case tag != version:
		c.unless("controller.image.tag", fmt.Sprintf("runs another version than its chart's: the image's tag is %s, and the chart's version %s", tag, version))
	}
	if byDigest && c.rendered.InGit && c.allowance.Versions != "" {
		c.found = append(c.found, Refusal{
			What: c.name(), Why: "names its image by digest in a chart in Git, which may be of a version outside of " + c.allowance.Versions,
			Field: fieldDigests, Entry: wholeDigest(c.rendered.Digest),
		})
	}
}

// isDigest says whether a container runtime would take this for the digest of an image.
var isDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString

// wholeDigest is a digest as the NodeSync names it, or the form of one where only its
// beginning is known.
func wholeDigest(digest string) string {
	const prefix = "sha256:"
	if len(digest) < len(prefix)+sha256.Size*2 {
		return prefix + "…"
	}
	return digest
}
