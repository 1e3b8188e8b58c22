package catalog

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// Image is a machine image that Amazon publishes for EKS, and the SSM
// parameters that name it.
type Image struct {
	ID         string
	Name       string
	Arch       string
	RootDevice string
	Created    time.Time
	Parameters []string
}

// release is a published build of the image families. A later one gets the parameters that mean "newest".
type release struct {
	al2023       string
	bottlerocket string
	created      time.Time
	newest       bool
}

func releases() []release {
	return []release{
		{"v20250904", "1.46.0", time.Date(2025, 9, 4, 10, 0, 0, 0, time.UTC), false},
		{"v20251002", "1.47.0", time.Date(2025, 10, 2, 10, 0, 0, 0, time.UTC), true},
	}
}

// kubernetesMinors returns the versions with images.
func kubernetesMinors() []string {
	return []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"}
}

// Images returns AL2023 and Bottlerocket, standard and NVIDIA, for both
// architectures and every supported Kubernetes version, and Windows. IDs are the same in
// every run.
func Images() []Image {
	var images []Image
	for _, minor := range kubernetesMinors() {
		for _, r := range releases() {
			for _, arch := range []string{amd64, arm64} {
				for _, variant := range []string{"standard", "nvidia"} {
					images = append(images, al2023(minor, arch, variant, r), bottlerocket(minor, arch, variant, r))
				}
			}
			for _, year := range []string{"2019", "2022", "2025"} {
				images = append(images, windows(minor, year, r))
			}
		}
	}
	return images
}

// Later returns the images of a release of AL2023 after those of Images: from now on it has the parameters that mean
// "newest".
func Later(version string, created time.Time) []Image {
	var images []Image
	for _, minor := range kubernetesMinors() {
		for _, arch := range []string{amd64, arm64} {
			for _, variant := range []string{"standard", "nvidia"} {
				images = append(images, al2023(minor, arch, variant, release{al2023: version, created: created, newest: true}))
			}
		}
	}
	return images
}

// al2023 uses the parameter names of
// https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html.
func al2023(minor, arch, variant string, r release) Image {
	name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, variant, minor, r.al2023)
	prefix := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/", minor, arch, variant)
	image := newImage(name, arch, r)
	image.Parameters = append(image.Parameters, prefix+name+"/image_id")
	if r.newest {
		image.Parameters = append(image.Parameters, prefix+"recommended/image_id")
	}
	return image
}

func bottlerocket(minor, arch, variant string, r release) Image {
	flavour := "aws-k8s-" + minor
	if variant != "standard" {
		flavour += "-" + variant
	}
	prefix := fmt.Sprintf("/aws/service/bottlerocket/%s/%s/", flavour, arch)
	image := newImage(fmt.Sprintf("bottlerocket-%s-%s-v%s", flavour, arch, r.bottlerocket), arch, r)
	image.Parameters = append(image.Parameters, prefix+r.bottlerocket+"/image_id")
	if r.newest {
		image.Parameters = append(image.Parameters, prefix+"latest/image_id")
	}
	return image
}

// windows uses the parameter names of
// https://docs.aws.amazon.com/eks/latest/userguide/retrieve-windows-ami-id.html, which name the newest build only.
func windows(minor, year string, r release) Image {
	name := fmt.Sprintf("Windows_Server-%s-English-Core-EKS_Optimized-%s", year, minor)
	image := newImage(name+"-"+r.created.Format("2006.01.02"), amd64, r)
	image.RootDevice = "/dev/sda1"
	if r.newest {
		image.Parameters = []string{"/aws/service/ami-windows-latest/" + name + "/image_id"}
	}
	return image
}

func newImage(name, arch string, r release) Image {
	return Image{
		ID:         fmt.Sprintf("ami-%x", sha256.Sum256([]byte(name)))[:21],
		Name:       name,
		Arch:       arch,
		RootDevice: "/dev/xvda",
		Created:    r.created,
	}
}
