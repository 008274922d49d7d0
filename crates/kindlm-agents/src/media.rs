//! Parts of messages that are neither text nor calls.

/// Types of parts that are pictures, files and sounds: they hold neither text nor calls.
pub const MEDIA: [&str; 11] = [
    "image",
    "image_url",
    "input_image",
    "file",
    "input_file",
    "document",
    "audio",
    "input_audio",
    "video",
    "input_video",
    "container_upload",
];
