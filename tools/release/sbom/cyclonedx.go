package main

import (
	"bytes"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// cycloneDX returns the SBOM as CycloneDX 1.6.
func cycloneDX(c contents) ([]byte, error) {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: c.created.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: c.main.purl(), Type: cdx.ComponentTypeApplication, Name: c.name, Version: c.main.version, PackageURL: c.main.purl(),
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: c.sha256}}, Licenses: licenceOf(c.main),
		},
	}
	var components []cdx.Component
	var refs []string
	for _, m := range c.components {
		component := cdx.Component{
			BOMRef: m.purl(), Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: m.purl(), Licenses: licenceOf(m),
		}
		if m.sum != "" {
			component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: m.sum}}
		}
		components, refs = append(components, component), append(refs, m.purl())
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: c.main.purl(), Dependencies: &refs}}
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

func licenceOf(c component) *cdx.Licenses {
	if c.licence == "" {
		return nil
	}
	return &cdx.Licenses{{License: &cdx.License{ID: c.licence}}}
}
