# Corrects what the licence detection of cyclonedx-gomod gets wrong in the SBOM, and adds what it does not examine.
def is(licence): .evidence.licenses = [{license: {id: licence}}];
def are(licences): .evidence.licenses = [{expression: licences}];
(.metadata.component | .licenses) = [{license: {id: "Apache-2.0"}}]
| .components |= map(
    if .name == "std" or (.name | test("^(golang.org/x/|modernc.org/libc$)")) then is("BSD-3-Clause")
    elif .name == "modernc.org/sqlite" then are("BSD-3-Clause AND blessing AND MIT")
    elif .name == "github.com/modelcontextprotocol/go-sdk" or .name == "gopkg.in/yaml.v3" then are("Apache-2.0 AND MIT")
    else . end)
