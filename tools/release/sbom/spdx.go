package main

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// spdxJSON returns the SBOM as SPDX 2.3.
func spdxJSON(c contents) ([]byte, error) {
	root := spdxPackage("Binary", c.main, c.sha256)
	root.PackageName, root.PrimaryPackagePurpose = c.name, "APPLICATION"
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: c.name,
		DocumentNamespace: "https://" + c.main.path + "/spdx/" + c.name + "-" + c.sha256,
		CreationInfo: &spdx.CreationInfo{
			Created: c.created.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "plumbline-sbom"}},
		},
		Packages: []*spdx.Package{root},
		Relationships: []*spdx.Relationship{{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "Binary"), Relationship: "DESCRIBES",
		}},
	}
	for i, m := range c.components {
		id := fmt.Sprintf("Module-%d", i)
		document.Packages = append(document.Packages, spdxPackage(id, m, m.sum))
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", "Binary"), RefB: common.MakeDocElementID("", id), Relationship: "STATIC_LINK",
		})
	}
	var out bytes.Buffer
	err := json.Write(document, &out, json.Indent(" "))
	return out.Bytes(), err
}

func spdxPackage(id string, c component, sum string) *spdx.Package {
	licence := cmp.Or(c.licence, "NOASSERTION")
	p := &spdx.Package{
		PackageName: c.path, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: c.version, PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: licence, PackageLicenseDeclared: licence, PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.purl(),
		}},
	}
	if sum != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	}
	return p
}
