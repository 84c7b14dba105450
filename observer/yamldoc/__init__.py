"""Reading configuration documents: YAML text to frozen structs, with every fault of every file and its place."""
